// comparison_test.go owns the end of a torture run: what is in the database is compared
// with what the logbook says that clients asked for and were told. It holds the server to
// the promise alone, and does not know how keys work inside.

package main

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// effect is a row that a POST has made.
type effect struct {
	id      int64
	created time.Time // whole milliseconds
	answer  string    // the body that its POST has to be answered with
	etag    string    // likewise; "" for none
}

// effects is what the database holds at the end: services by name, revisions by the
// service, so that each intention finds its own.
type effects struct {
	services  map[string][]effect
	revisions map[int64][]effect
}

// of lists the effects of an intention. Names are drawn once, and each service is
// checked for one intention alone.
func (e effects) of(in *intention) []effect {
	if in.name != "" {
		return e.services[in.name]
	}
	return e.revisions[in.service]
}

// readEffects reads a database that no process uses.
func readEffects(t *testing.T, path string) effects {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, "mode=ro"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var tag string
	if err := db.QueryRow(`SELECT value FROM settings WHERE name = 'tag'`).Scan(&tag); err != nil {
		t.Fatal(err)
	}
	e := effects{services: map[string][]effect{}, revisions: map[int64][]effect{}}
	each := func(query string, take func(rows *sql.Rows) error) {
		rows, err := db.Query(query)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			if err := take(rows); err != nil {
				t.Fatal(err)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
	}
	each(`SELECT id, name, url, limit_ms, created_at FROM services ORDER BY id`, func(rows *sql.Rows) error {
		var id, limit, created int64
		var name, url string
		err := rows.Scan(&id, &name, &url, &limit, &created)
		e.services[name] = append(e.services[name], effect{
			id: id, created: time.UnixMilli(created), etag: fmt.Sprintf(`"%d-1-%s"`, id, tag),
			answer: fmt.Sprintf(`{"id":%d,"nombre":%q,"url":%q,"limite_ms":%d}`+"\n", id, name, url, limit),
		})
		return err
	})
	each(`SELECT id, service, created_at FROM revisions ORDER BY id`, func(rows *sql.Rows) error {
		var id, service, created int64
		err := rows.Scan(&id, &service, &created)
		e.revisions[service] = append(e.revisions[service], effect{
			id: id, created: time.UnixMilli(created),
			answer: fmt.Sprintf(`{"id":%d,"servicio":%d,"estado":"pendiente","resultado":null}`+"\n", id, service),
		})
		return err
	})
	return e
}

// The ways to break the promise.
const (
	lostEffect    = "acknowledged, and not there"
	doubleEffect  = "one intention, several effects"
	unaskedEffect = "nobody asked for it"
	wrongAnswer   = "the answer is not that of the effect"
	changedReplay = "a replay differs from the first answer"
	untrueFlag    = "Idempotency-Replayed is not true"
	wrongRefusal  = "refused for no good reason"
	neverAnswered = "never answered"
)

// finding is one broken promise.
type finding struct{ kind, what string }

// compare holds the database to the logbook.
func (l *logbook) compare(e effects) []finding {
	var found []finding
	known := effects{services: maps.Clone(e.services), revisions: maps.Clone(e.revisions)}
	for _, in := range l.intentions {
		found = append(found, in.compare(e.of(in))...)
		if len(in.attempts) > 0 {
			if in.name != "" {
				delete(known.services, in.name)
			} else {
				delete(known.revisions, in.service)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known.services)) {
		found = append(found, finding{unaskedEffect, "service " + name})
	}
	for _, service := range slices.Sorted(maps.Keys(known.revisions)) {
		found = append(found, finding{unaskedEffect, fmt.Sprintf("revision of service %d", service)})
	}
	return found
}

// compare holds one intention's effects to what its client was told.
func (in *intention) compare(made []effect) []finding {
	var found []finding
	note := func(kind, format string, args ...any) {
		found = append(found, finding{kind, in.String() + ": " + fmt.Sprintf(format, args...) + in.story()})
	}
	if len(made) > 1 {
		note(doubleEffect, "%d", len(made))
	}
	for i, p := range in.attempts {
		if p.answered() && !p.succeeded() && !in.mayRefuse(p) {
			note(wrongRefusal, "attempt %d", i+1)
		}
	}
	told := in.successes()
	if len(told) == 0 {
		if !in.abandoned && len(found) == 0 && len(in.attempts) > 0 {
			note(neverAnswered, "%d attempts", len(in.attempts))
		}
		return found
	}
	first := told[0].got
	mine := slices.IndexFunc(made, func(f effect) bool { return in.location(f.id) == first.header.Get("Location") })
	if mine < 0 {
		note(lostEffect, "%s", first.header.Get("Location"))
	} else if f := made[mine]; first.status != in.status() || first.body != f.answer || first.header.Get("ETag") != f.etag {
		note(wrongAnswer, "want %d %s ETag %s", in.status(), f.answer, f.etag)
	}
	for _, p := range told[1:] {
		if replayable(p.got) != replayable(first) {
			note(changedReplay, "%q, want %q", replayable(p.got), replayable(first))
		}
	}
	for i, p := range told {
		if problem := in.flagProblem(p, told[:i]); problem != "" {
			note(untrueFlag, "%s", problem)
		}
	}
	return found
}

// flagProblem says why an answer's Idempotency-Replayed cannot be true, given the
// answers that were told before it.
func (in *intention) flagProblem(p *posting, before []*posting) string {
	alone := !slices.ContainsFunc(in.attempts, func(q *posting) bool { return q != p && q.sent.Before(p.ended) })
	switch flag := p.got.replayed(); {
	case flag == "true" && alone:
		return "true, with nothing to repeat"
	case flag == "false" && slices.ContainsFunc(before, func(q *posting) bool { return q.got.replayed() == "false" }):
		return "false twice"
	case flag == "false" && slices.ContainsFunc(before, func(q *posting) bool { return q.ended.Before(p.sent) }):
		return "false, after an answer"
	case flag != "true" && flag != "false":
		return fmt.Sprintf("%q", flag)
	}
	return ""
}

// mayRefuse tells whether a refusal is one that a client in trouble has to expect:
// another attempt may be running, or its credential's minute is full. Nobody else uses
// these names, and nothing is wrong with what is sent.
func (in *intention) mayRefuse(p *posting) bool {
	switch p.got.verdict() {
	case "409 llave-en-curso":
		return slices.ContainsFunc(in.attempts, func(q *posting) bool {
			return q != p && q.sent.Before(p.ended) && (!q.answered() || q.ended.After(p.sent))
		})
	case "429 demasiadas-revisiones":
		return in.name == ""
	}
	return false
}

func (in *intention) status() int {
	if in.name != "" {
		return 201
	}
	return 202
}

func (in *intention) location(id int64) string {
	if in.name != "" {
		return servicePath(id)
	}
	return revisionPath(id)
}

// replayable is all of an answer that a replay has to repeat.
func replayable(r response) string {
	return fmt.Sprintf("%d %s %s %s %s %s", r.status, r.header.Get("Location"), r.header.Get("ETag"),
		r.header.Get("Content-Type"), r.header.Get("Content-Length"), r.body)
}

// countKinds counts findings by kind.
func countKinds(found []finding) map[string]int {
	counts := map[string]int{}
	for _, f := range found {
		counts[f.kind]++
	}
	return counts
}

// The shorthands of the tests below: times in milliseconds, answers to a service 7 or a
// revision 9.
func atMillis(ms int64) time.Time { return time.UnixMilli(ms) }

func toldPosting(sent, ended int64, status int, location, flag string) *posting {
	p := &posting{sent: atMillis(sent), ended: atMillis(ended), got: response{status: status, header: http.Header{"Content-Type": {"application/json"}}}}
	p.got.header.Set("Location", location)
	p.got.header.Set(replayedHeader, flag)
	p.got.body = "the answer\n"
	if status == 201 {
		p.got.header.Set("ETag", "the tag")
	}
	return p
}

func refusedPosting(sent, ended int64, slug string) *posting {
	p := toldPosting(sent, ended, kinds[slug].status, "", "")
	p.got.header.Set("Content-Type", "application/problem+json")
	p.got.body = fmt.Sprintf(`{"type":%q}`, problemBase+slug)
	return p
}

func silentPosting(sent, ended int64) *posting {
	return &posting{sent: atMillis(sent), ended: atMillis(ended), why: fmt.Errorf("cut")}
}

// TestComparison: each lie is found, and the truth is not taken for one.
func TestComparison(t *testing.T) {
	t.Parallel()
	service := effect{id: 7, created: atMillis(15), answer: "the answer\n", etag: "the tag"}
	revision, another := effect{id: 9, created: atMillis(15), answer: "the answer\n"}, effect{id: 10, created: atMillis(35), answer: "the answer\n"}
	first, replay := toldPosting(10, 20, 201, "/servicios/7", "false"), toldPosting(30, 40, 201, "/servicios/7", "true")
	altered := func(p *posting, alter func(p *posting)) *posting {
		q := *p
		q.got.header = p.got.header.Clone()
		alter(&q)
		return &q
	}
	tests := []struct {
		name     string
		attempts []*posting
		made     []effect
		want     []string
	}{
		{"first and replay", []*posting{first, replay}, []effect{service}, nil},
		{"replay of a lost answer", []*posting{silentPosting(10, 20), replay}, []effect{service}, nil},
		{"two at once, told in either order", []*posting{toldPosting(10, 40, 201, "/servicios/7", "false"), toldPosting(20, 30, 201, "/servicios/7", "true")}, []effect{service}, nil},
		{"told, and not there", []*posting{first}, nil, []string{lostEffect}},
		{"told of another", []*posting{toldPosting(10, 20, 201, "/servicios/8", "false")}, []effect{service}, []string{lostEffect}},
		{"told of something else", []*posting{altered(first, func(p *posting) { p.got.body = "another\n" })}, []effect{service}, []string{wrongAnswer}},
		{"tag of something else", []*posting{altered(first, func(p *posting) { p.got.header.Set("ETag", "another") })}, []effect{service}, []string{wrongAnswer}},
		{"replay not to the byte", []*posting{first, altered(replay, func(p *posting) { p.got.body = "the answer" })}, []effect{service}, []string{changedReplay}},
		{"replay without its tag", []*posting{first, altered(replay, func(p *posting) { p.got.header.Del("ETag") })}, []effect{service}, []string{changedReplay}},
		{"replay with another status", []*posting{first, toldPosting(30, 40, 200, "/servicios/7", "true")}, []effect{service}, []string{changedReplay}},
		{"replay that says it is none", []*posting{first, toldPosting(30, 40, 201, "/servicios/7", "false")}, []effect{service}, []string{untrueFlag}},
		{"first that says it is a replay", []*posting{toldPosting(10, 20, 201, "/servicios/7", "true")}, []effect{service}, []string{untrueFlag}},
		{"no word of a replay", []*posting{toldPosting(10, 20, 201, "/servicios/7", "")}, []effect{service}, []string{untrueFlag}},
		{"first after an answer", []*posting{silentPosting(5, 6), toldPosting(10, 20, 201, "/servicios/7", "true"), toldPosting(30, 40, 201, "/servicios/7", "false")}, []effect{service}, []string{untrueFlag}},
		{"never told", []*posting{silentPosting(10, 20), silentPosting(30, 40)}, []effect{service}, []string{neverAnswered}},
		{"refused while it runs", []*posting{toldPosting(10, 40, 201, "/servicios/7", "false"), refusedPosting(20, 30, "llave-en-curso")}, []effect{service}, nil},
		{"refused while a lost one may run", []*posting{silentPosting(10, 15), refusedPosting(20, 30, "llave-en-curso"), replay}, []effect{service}, nil},
		{"refused though nothing runs", []*posting{first, refusedPosting(25, 28, "llave-en-curso")}, []effect{service}, []string{wrongRefusal}},
		{"refused for its own name", []*posting{silentPosting(10, 20), refusedPosting(30, 40, "nombre-repetido")}, []effect{service}, []string{wrongRefusal}},
		{"internal error", []*posting{refusedPosting(10, 20, "error-interno"), replay}, []effect{service}, []string{wrongRefusal}},
		{"too many services", []*posting{refusedPosting(10, 20, "demasiadas-revisiones"), first}, []effect{service}, []string{wrongRefusal}},
		{"nobody asked", nil, []effect{service}, []string{unaskedEffect}},
		{"revision", []*posting{refusedPosting(1, 2, "demasiadas-revisiones"), toldPosting(10, 20, 202, "/revisiones/9", "false")}, []effect{revision}, nil},
		{"revision done twice, told once", []*posting{silentPosting(1, 2), toldPosting(10, 20, 202, "/revisiones/9", "false")}, []effect{revision, another}, []string{doubleEffect}},
		{"revision done twice, told twice", []*posting{toldPosting(10, 20, 202, "/revisiones/9", "false"), toldPosting(30, 40, 202, "/revisiones/10", "false")},
			[]effect{revision, another}, []string{doubleEffect, changedReplay, untrueFlag}},
		{"revision nobody asked for", nil, []effect{revision}, []string{unaskedEffect}},
	}
	for _, tt := range tests {
		e := effects{services: map[string][]effect{}, revisions: map[int64][]effect{}}
		in := &intention{key: "k", path: "/servicios", name: "uno", attempts: tt.attempts}
		if strings.HasPrefix(tt.name, "revision") {
			in = &intention{key: "k", path: "/servicios/7/revisiones", service: 7, attempts: tt.attempts}
			e.revisions[7] = tt.made
		} else if tt.made != nil {
			e.services["uno"] = tt.made
		}
		var got []string
		for _, f := range (&logbook{intentions: []*intention{in}}).compare(e) {
			got = append(got, f.kind)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s: compare (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestCatch: only a kill that took an answer away has caught anything.
func TestCatch(t *testing.T) {
	t.Parallel()
	kills := []kill{{atMillis(0), atMillis(20), atMillis(22)}, {atMillis(50), atMillis(80), atMillis(82)}}
	lost := silentPosting(10, 30)
	lost.lose = true
	late := silentPosting(10, 30)
	late.why = context.DeadlineExceeded
	tests := []struct {
		name    string
		attempt *posting
		created int64 // of the effect, 0 for none
		want    catch
	}{
		{"cut, and not there", silentPosting(10, 30), 0, catch{caught: 1, posts: 1}},
		{"cut, and there", silentPosting(10, 30), 15, catch{caught: 1, posts: 1, committed: 1, committedPosts: 1}},
		{"cut, and made by the next process", silentPosting(10, 30), 60, catch{caught: 1, posts: 1}},
		{"cut by the second kill, made by the first process", silentPosting(60, 90), 15, catch{caught: 1, posts: 1}},
		{"cut by the second kill, and there", silentPosting(60, 90), 65, catch{caught: 1, posts: 1, committed: 1, committedPosts: 1}},
		{"ended before the kill", silentPosting(10, 19), 15, catch{}},
		{"sent after the kill", silentPosting(21, 30), 0, catch{}},
		{"answered all the same", toldPosting(10, 30, 201, "/servicios/7", "false"), 15, catch{}},
		{"to be lost anyway", lost, 15, catch{}},
		{"would not have waited", late, 15, catch{}},
	}
	for _, tt := range tests {
		e := effects{services: map[string][]effect{}}
		if tt.created != 0 {
			e.services["uno"] = []effect{{id: 7, created: atMillis(tt.created)}}
		}
		l := logbook{intentions: []*intention{{name: "uno", attempts: []*posting{tt.attempt}}}}
		tt.want.kills = len(kills)
		if got := l.catch(kills, e); got != tt.want {
			t.Errorf("%s: catch = %v, want %v", tt.name, got, tt.want)
		}
	}
}
