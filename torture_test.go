//go:build unix

// torture_test.go owns the torture run: real processes, clients that repeat their
// requests with their keys, directly and through a gateway that loses answers, while the
// revisor is killed at random moments and started again. What the clients were told is
// compared with the database at the end (logbook_test.go, comparison_test.go).
//
//	go test -run TestTorture . -torture 10m -timeout 30m -v
//	go test -run TestTorture . -torture.seed 7 -v
//
// The seed draws what clients do and when the kills come; what the processes make of it
// is up to the machine, so a seed does not repeat a run, only its pattern.

package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	tortureTime = flag.Duration("torture", 0, "how long TestTorture goes on, 50 kills at least; each defect is then looked for three times")
	tortureSeed = flag.Uint64("torture.seed", 0, "seed of the runs that are killed; 0 draws one")
)

const (
	// tortureClients share two cores with their servers: enough for groups of several
	// writes, few enough for answers within milliseconds.
	tortureClients = 8
	// credentialsEach is how many credentials each client takes turns with: three
	// revisions a minute are allowed to each of them.
	credentialsEach = 50
	// tortureSettling is how long each intention has to get an answer once nothing is
	// killed any more.
	tortureSettling = 20 * time.Second
	// momentPatience is how long a kill waits for its moment; then any moment will do.
	momentPatience = 100 * time.Millisecond
)

// torture is one run.
type torture struct {
	t         *testing.T
	seed      uint64
	logbook   logbook
	db        string
	revisor   *victim
	direct    *url.URL // the revisor's address
	gateway   *url.URL // the gateway's
	transport *http.Transport
	target    string     // where the services are
	tokens    [][]string // of each client
	stop      chan struct{}
}

// newTorture prepares the revisor and starts the gateway before it. args are the
// revisor's.
func newTorture(t *testing.T, seed uint64, args ...string) *torture {
	t.Helper()
	target := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(target.Close)
	r := &torture{
		t: t, seed: seed, db: filepath.Join(t.TempDir(), "revisor.db"), transport: newTransport(),
		target: target.URL, stop: make(chan struct{}),
		direct:  &url.URL{Scheme: "http", Host: reserveAddress(t)},
		gateway: &url.URL{Scheme: "http", Host: reserveAddress(t)},
	}
	for i := range tortureClients {
		r.tokens = append(r.tokens, newTokens(t, r.db, fmt.Sprint("c", i), credentialsEach))
	}
	newVictim(t, "--as", "gateway", "--gateway-listen", r.gateway.Host, "--target", r.direct.String()).start()
	r.revisor = newVictim(t, append([]string{"--db", r.db, "--listen", r.direct.Host, "--allow", "127.0.0.1"}, args...)...)
	return r
}

// newTokens keeps new writers of one team in a database that no process uses, and returns
// their tokens.
func newTokens(t *testing.T, db, team string, n int) (tokens []string) {
	t.Helper()
	st, err := openStore(db, newTag)
	if err != nil {
		t.Fatal(err)
	}
	err = st.write(context.Background(), func(tx *tx) error {
		for i := range n {
			c, token, err := newCredential(fmt.Sprint(team, "-", i), team, "writer", time.Now())
			if err != nil {
				return err
			}
			if _, err := tx.insertCredential(c); err != nil {
				return err
			}
			tokens = append(tokens, token)
		}
		return nil
	})
	if err := errors.Join(err, st.close()); err != nil {
		t.Fatal(err)
	}
	return tokens
}

// run kills until enough says so, lets everybody come to an end, and returns what was
// found wrong. At the end the processes are gone.
func (r *torture) run(enough func(kills int) bool) (kills []kill, e effects, found []finding) {
	r.t.Helper()
	var clients sync.WaitGroup
	for i := range tortureClients {
		clients.Go(func() { r.client(i) })
	}
	chance := rand.New(rand.NewPCG(r.seed, tortureClients))
	for !enough(len(kills)) {
		kills = append(kills, r.life(chance))
	}
	r.revisor.start()
	close(r.stop)
	clients.Wait()
	r.settle()
	r.revisor.kill()
	e = readEffects(r.t, r.db)
	return kills, e, r.logbook.compare(e)
}

// life starts the revisor and kills it while somebody waits for an answer. Kills at any
// moment find work in all its stages. Those at the moment of a commit, before its answers
// are out, make sure that what is committed and not yet told, a matter of microseconds,
// is met often enough to say something; those at the moment of an answer, that nothing
// is told too soon. And some do not live long enough to listen.
func (r *torture) life(chance *rand.Rand) kill {
	if chance.IntN(15) == 0 {
		r.revisor.launch()
		<-time.After(upTo(chance, 20*time.Millisecond))
		return r.revisor.kill()
	}
	r.revisor.start()
	<-time.After(upTo(chance, 40*time.Millisecond))
	soon(r.t, "a keyed POST is under way", func() bool { return r.logbook.unanswered() > 0 })
	switch chance.IntN(4) {
	case 0:
	case 1:
		r.logbook.nextAnswer(momentPatience)
	default:
		nextCommit(r.db, momentPatience)
	}
	return r.revisor.kill()
}

// upTo draws a time below most.
func upTo(chance *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(chance.Int64N(int64(most)))
}

// client has one intention after the other until the run stops: a service, then its one
// revision. Now and then it asks once more for something that it was told long ago.
func (r *torture) client(number int) {
	c := &torturedClient{torture: r, chance: rand.New(rand.NewPCG(r.seed, uint64(number)))}
	for n := 0; !c.stopped(); n++ {
		name, token := fmt.Sprintf("s%d-%d", number, n), r.tokens[number][n%credentialsEach]
		service := r.logbook.plan(&intention{
			key: "key-of-" + name, token: token, path: "/servicios", name: name,
			body: fmt.Sprintf(`{"nombre":%q,"url":%q}`, name, r.target+"/"+name),
		})
		c.insist(service)
		if told := service.successes(); len(told) > 0 {
			id := idIn(told[0].got)
			c.insist(r.logbook.plan(&intention{
				key: "key-of-revision-of-" + name, token: token, path: servicePath(id) + "/revisiones", service: id,
				body: fmt.Sprintf(`{"por":%q}`, name),
			}))
		}
		if len(c.told) > 0 && c.chance.IntN(3) == 0 {
			c.turn(c.told[c.chance.IntN(len(c.told))])
		}
	}
}

// torturedClient is a client with its own chance.
type torturedClient struct {
	*torture
	chance *rand.Rand
	told   []*intention // of success
}

func (c *torturedClient) stopped() bool {
	select {
	case <-c.stop:
		return true
	default:
		return false
	}
}

// insist repeats a request until it is answered for good, the run stops or, rarely, the
// client gives up.
func (c *torturedClient) insist(in *intention) {
	for !c.stopped() {
		switch p := c.turn(in); {
		case p.succeeded():
			c.told = append(c.told, in)
			return
		case p.answered() && !worthRepeating(p):
			return
		case !p.answered() && c.chance.IntN(50) == 0:
			in.abandoned = true
			return
		}
		<-time.After(upTo(c.chance, 5*time.Millisecond))
	}
}

// worthRepeating tells whether an answer may become a better one by itself.
func worthRepeating(p *posting) bool {
	return p.got.problem() == "llave-en-curso" || p.got.problem() == "demasiadas-revisiones"
}

// turn makes one attempt, or two at once, and returns the one that came further. Some
// are made in a hurry: they end before their answer can come, and the next one meets
// the original at work.
func (c *torturedClient) turn(in *intention) *posting {
	posts := make([]*posting, 1+c.chance.IntN(5)/4)
	var waiting sync.WaitGroup
	for i := range posts {
		gateway := c.chance.IntN(2) == 0
		lose := gateway && c.chance.IntN(2) == 0
		patience := 10 * time.Second
		if c.chance.IntN(5) == 0 {
			patience = time.Millisecond + upTo(c.chance, 8*time.Millisecond)
		}
		waiting.Go(func() { posts[i] = c.post(in, gateway, lose, patience) })
	}
	waiting.Wait()
	return slices.MaxFunc(posts, func(a, b *posting) int { return a.rank() - b.rank() })
}

func (p *posting) rank() int {
	switch {
	case p.succeeded():
		return 2
	case p.answered():
		return 1
	}
	return 0
}

// post makes one attempt: one request on a connection of its own, written down before it
// is sent and when it ends. What the gateway says of itself is no answer.
func (r *torture) post(in *intention, gateway, lose bool, patience time.Duration) *posting {
	base, header := r.direct, http.Header{
		"Authorization": {"Bearer " + in.token}, "Content-Type": {"application/json"}, "Idempotency-Key": {in.key},
	}
	if gateway {
		base = r.gateway
	}
	if lose {
		header.Set(simulateHeader, loseFirst)
	}
	p := r.logbook.send(in, gateway, lose)
	a, err := attempt(context.Background(), r.transport, patience, 64<<10, call{
		method: "POST", base: base, path: in.path, header: header, body: []byte(in.body),
	})
	got := response{a.status, a.header, string(a.body)}
	switch {
	case err != nil:
		got = response{}
	case gateway && got.problem() == "about:blank" && got.status >= 500:
		err = fmt.Errorf("gateway: %s", got.member("detail"))
		if strings.Contains(err.Error(), "se perdió") {
			err = errAnswerLost
		}
		got = response{}
	default:
		checkAnswer(r.t, "POST", in.path, got)
	}
	r.logbook.end(p, got, err)
	return p
}

// settle hears everybody out, now that nothing is killed any more: whoever has no answer
// yet gets one, and everything that was ever answered is asked for once more.
func (r *torture) settle() {
	work := make(chan *intention)
	var clients sync.WaitGroup
	for range tortureClients {
		clients.Go(func() {
			for in := range work {
				r.hearOut(in)
			}
		})
	}
	for _, in := range r.logbook.intentions {
		if !in.abandoned && len(in.attempts) > 0 {
			work <- in
		}
	}
	close(work)
	clients.Wait()
}

// hearOut asks until there is an answer for good, and then once more.
func (r *torture) hearOut(in *intention) {
	for deadline := time.Now().Add(tortureSettling); len(in.successes()) == 0 && time.Now().Before(deadline); {
		if p := r.post(in, false, false, tortureSettling); p.answered() && !p.succeeded() {
			if !worthRepeating(p) {
				return
			}
			<-time.After(10 * time.Millisecond)
		}
	}
	r.post(in, false, false, tortureSettling)
}

// report tells how much the run has seen.
func (r *torture) report(kills []kill, e effects) catch {
	c := r.logbook.catch(kills, e)
	r.t.Logf("seed %d: %v", r.seed, c)
	r.t.Logf("logbook: %s", r.logbook.tally())
	return c
}

// drawSeed is the seed that was asked for, or a new one.
func drawSeed(t *testing.T) uint64 {
	t.Helper()
	seed := cmp.Or(*tortureSeed, rand.Uint64())
	t.Logf("seed %d", seed)
	return seed
}

// TestTorture: whatever was acknowledged is there, once, and every repetition hears the
// first answer. A run that has not looked where it hurts proves nothing, and fails.
func TestTorture(t *testing.T) {
	t.Parallel()
	r := newTorture(t, drawSeed(t), "--save-delay", "3ms")
	begun := time.Now()
	kills, e, found := r.run(func(kills int) bool { return kills >= 50 && time.Since(begun) >= *tortureTime })
	c := r.report(kills, e)
	t.Logf("%v", time.Since(begun))
	for i, f := range found {
		if i == 20 {
			t.Errorf("… %d findings: %v", len(found), countKinds(found))
			break
		}
		t.Errorf("%s: %s", f.kind, f.what)
	}
	if c.caught*4 < c.kills || c.committed*4 < c.kills {
		t.Errorf("%v, want at least a quarter of the kills each", c)
	}
}

// TestTortureFindsDefects: the run finds each way to break the promise that only a crash
// or a hurry can show. Revisions are what shows it best: nothing makes them unique.
func TestTortureFindsDefects(t *testing.T) {
	t.Parallel()
	seed := cmp.Or(*tortureSeed, 1)
	seeds := []uint64{seed}
	if *tortureTime > 0 {
		seeds = []uint64{seed, seed + 1, seed + 2}
	}
	for _, broken := range []defect{volatileKeys, splitTransaction, lateReserve} {
		for _, seed := range seeds {
			t.Run(fmt.Sprintf("%s/seed %d", broken, seed), func(t *testing.T) {
				t.Parallel()
				begun := time.Now()
				r := newTorture(t, seed, "--save-delay", "3ms", "--break", string(broken))
				kills, e, found := r.run(func(kills int) bool { return kills >= 30 })
				r.report(kills, e)
				t.Logf("found %v in %v", countKinds(found), time.Since(begun))
				i := slices.IndexFunc(found, func(f finding) bool { return f.kind == doubleEffect })
				if i < 0 {
					t.Fatalf("found %v, want %q among it", countKinds(found), doubleEffect)
				}
				t.Logf("for example: %s: %s", found[i].kind, found[i].what)
			})
		}
	}
}
