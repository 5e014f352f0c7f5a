// orders_test.go owns an API that is not ours, as a stranger would have it: orders, with
// an Api-Key, quoted keys, waiting for the original and recorded failures. It keeps its
// promise, or breaks it in one way; verify must tell which.

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// ordersProfile describes it.
const ordersProfile = `{
  "base": "http://127.0.0.1:1",
  "credentials": [{"header": "Api-Key", "value": "${NORTH}"}, {"header": "Api-Key", "value": "south"}],
  "create": {
    "path": "/v2/orders", "headers": {"X-Region": "eu"},
    "body": {"reference": "{{unique}}", "amount": 1, "note": "{{unique}} of verify"}, "status": [200], "id": "/order/order_id"
  },
  "changed": {"body": {"reference": "{{unique}}", "amount": 2}},
  "slow": {"path": "/v2/orders?slow=1"},
  "effects": {"path": "/v2/orders?reference={{unique}}", "list": "/data/0/orders", "id": "/order_id"},
  "expect": {"mismatch": [409, 400], "in_flight": "wait", "malformed": 400},
  "replay": {"headers": ["Content-Type", "Order-Version"], "marker": {"header": "Idempotent-Replay", "again": "yes"}},
  "key": {"spelling": "quoted", "longest": 64},
  "invalid": {"body": {"reference": "{{unique}}", "amount": -1}, "status": 422, "failure": "recorded"},
  "other_route": {"path": "/v2/payments", "body": {"order": "{{id}}"}, "status": 202, "answer": "own"},
  "update": {"path": "/v2/orders/{{id}}", "body": {"reference": "{{unique}}"}, "status": [200, 204]},
  "remove": {"path": "/v2/orders/{{id}}", "status": 200}
}`

// ordersKeyLife is how long its keys live, for a profile that says so.
const ordersKeyLife = 1500 * time.Millisecond

// orderKey is the field's value: a quoted string of 1 to 64 visible characters.
var orderKey = regexp.MustCompile(`^"[!#-~]{1,64}"$`)

// orders is the server. Its orders belong to who sent them.
type orders struct {
	wrong   string // what it does wrong; "" for nothing
	longest int    // characters of a key; 0: as many as orderKey has

	mu     sync.Mutex
	last   int
	living map[string]order
	keys   map[string]*orderAttempt
	cached map[string]orderAnswer // of what needs no key, when that is wrong
	later  []func()               // work that is done after its answer, when that is wrong
}

type order struct {
	ID        string `json:"order_id"`
	Reference string `json:"reference"`
	owner     string
}

// orderAttempt is the first request with a key, and what became of it.
type orderAttempt struct {
	print  string // what tells one request from another
	began  time.Time
	done   chan struct{}
	answer orderAnswer
}

type orderAnswer struct {
	status int
	body   string
}

func newOrders(wrong string) *orders {
	return &orders{wrong: wrong, living: map[string]order{}, keys: map[string]*orderAttempt{}, cached: map[string]orderAnswer{}}
}

func (o *orders) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if owner := r.Header.Get("Api-Key"); owner != "north" && owner != "south" {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if r.Method == http.MethodPost {
		o.keyed(w, r, string(body))
		return
	}
	key := r.Method + " " + r.Header.Get("Idempotency-Key")
	o.mu.Lock()
	got, known := o.cached[key]
	o.mu.Unlock()
	if !known {
		got = o.plain(r, string(body))
	}
	if r.Header.Get("Idempotency-Key") != "" && o.wrong == r.Method+" is keyed" {
		o.mu.Lock()
		o.cached[key] = got
		o.mu.Unlock()
	}
	got.send(w)
}

func (a orderAnswer) send(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/vnd.orders+json")
	w.WriteHeader(a.status)
	io.WriteString(w, a.body)
}

// plain is what needs no key.
func (o *orders) plain(r *http.Request, body string) orderAnswer {
	o.mu.Lock()
	defer o.mu.Unlock()
	id := strings.TrimPrefix(r.URL.Path, "/v2/orders/")
	switch r.Method {
	case http.MethodGet:
		list := []order{}
		for _, one := range o.living {
			if (one.owner == r.Header.Get("Api-Key") || o.wrong == everybodySees) && one.Reference == r.URL.Query().Get("reference") {
				list = append(list, one)
			}
		}
		text, _ := json.Marshal(map[string]any{"data": []any{map[string]any{"orders": list}}})
		return orderAnswer{200, string(text)}
	case http.MethodPut:
		one := o.living[id]
		json.Unmarshal([]byte(body), &one)
		o.living[id] = one
		return orderAnswer{200, "{}"}
	case http.MethodDelete:
		if _, there := o.living[id]; !there {
			return orderAnswer{404, "{}"}
		}
		delete(o.living, id)
		if o.wrong == "removal forgets keys" {
			for scope, first := range o.keys {
				if strings.Contains(first.answer.body, `"`+id+`"`) {
					delete(o.keys, scope)
				}
			}
		}
		return orderAnswer{200, "{}"}
	}
	return orderAnswer{405, "{}"}
}

// keyed is the protocol of the key.
func (o *orders) keyed(w http.ResponseWriter, r *http.Request, body string) {
	lines := r.Header.Values("Idempotency-Key")
	if o.malformed(lines) {
		orderAnswer{400, `{"error":"bad key"}`}.send(w)
		return
	}
	scope, print := r.Header.Get("Api-Key")+r.URL.Path+lines[0], body
	switch o.wrong {
	case "keys do nothing":
		o.work(r, body).send(w)
		return
	case "keys are everybody's":
		scope = r.URL.Path + lines[0]
	case "keys are every route's":
		scope, print = r.Header.Get("Api-Key")+lines[0], ""
	case "keys are cut":
		scope = r.Header.Get("Api-Key") + r.URL.Path + lines[0][:9]
	case "keys lose their case":
		scope = r.Header.Get("Api-Key") + r.URL.Path + strings.ToLower(lines[0])
	case "the body is the key":
		scope = r.Header.Get("Api-Key") + r.URL.Path + body
	}
	o.mu.Lock()
	first, known := o.keys[scope]
	life := ordersKeyLife
	if o.wrong == "keys die young" {
		life /= 4
	}
	if known && time.Since(first.began) > life && o.wrong != "keys never expire" {
		known = false
	}
	if !known {
		first = &orderAttempt{print: print, began: time.Now(), done: make(chan struct{})}
		o.keys[scope] = first
	}
	o.mu.Unlock()
	if known {
		o.again(w, r, scope, first, print)
		return
	}
	o.original(w, r, scope, first, body)
}

// malformed tells whether a key is refused.
func (o *orders) malformed(lines []string) bool {
	if len(lines) != 1 {
		return o.wrong != "two lines are one key" || len(lines) == 0
	}
	key := strings.Trim(lines[0], `"`)
	switch {
	case o.longest > 0 && len(key) > o.longest:
		return true
	case orderKey.MatchString(lines[0]),
		o.wrong == "an empty key is one" && key == "",
		o.wrong == "a long key is one" && len(key) > 64,
		o.wrong == "any byte is a key" && strings.ContainsFunc(key, func(r rune) bool { return r > '~' }):
		return false
	}
	return true
}

// original does the work and records its answer, also that of a failure.
func (o *orders) original(w http.ResponseWriter, r *http.Request, scope string, first *orderAttempt, body string) {
	time.Sleep(10 * time.Millisecond) // the work
	if r.URL.Query().Has("slow") {
		time.Sleep(60 * time.Millisecond) // the work of the slow variant
	}
	answer := o.work(r, body)
	forget := o.wrong == "failures free keys" && answer.status == 422 ||
		o.wrong == "a hang-up loses the record" && r.Context().Err() != nil
	o.mu.Lock()
	first.answer = answer
	if forget {
		delete(o.keys, scope)
	}
	o.mu.Unlock()
	close(first.done)
	w.Header().Set("Order-Version", "1")
	first.answer.send(w)
}

// again answers a request whose key is taken.
func (o *orders) again(w http.ResponseWriter, r *http.Request, scope string, first *orderAttempt, print string) {
	running := true
	select {
	case <-first.done:
		running = false
	default:
	}
	switch {
	case running && first.print == print && o.wrong == "nobody waits":
		orderAnswer{500, "{}"}.send(w)
		return
	case running && o.wrong == "a duplicate works too":
		o.work(r, print).send(w)
		return
	case first.print != print && !(running && o.wrong == "a running key fits all"):
		if o.wrong == "the refused is done" {
			o.work(r, print)
		}
		if o.wrong == "a mismatch frees the key" {
			o.mu.Lock()
			delete(o.keys, scope)
			o.mu.Unlock()
		}
		orderAnswer{400, `{"error":"key used"}`}.send(w)
		return
	}
	<-first.done
	if o.wrong == "a repetition is done later" && first.answer.status == 200 {
		o.mu.Lock()
		o.later = append(o.later, func() { o.work(r, print) })
		o.mu.Unlock()
	}
	got := first.answer
	if o.wrong != "a replay lacks a field" {
		w.Header().Set("Order-Version", "1")
	}
	if o.wrong != "a replay is not marked" {
		w.Header().Set("Idempotent-Replay", "yes")
	}
	if o.wrong == "a replay has other bytes" {
		got.body += " "
	}
	got.send(w)
}

// work makes an order, or a payment.
func (o *orders) work(r *http.Request, body string) orderAnswer {
	if r.URL.Path == "/v2/payments" {
		return orderAnswer{202, `{"payment":"accepted"}`}
	}
	var asked struct {
		Reference string
		Amount    int
	}
	if json.Unmarshal([]byte(body), &asked) != nil || asked.Amount < 0 || r.Header.Get("Content-Type") != "application/json" {
		return orderAnswer{422, `{"error":"bad order"}`}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last++
	made := order{fmt.Sprintf("ord_%d", o.last), asked.Reference, r.Header.Get("Api-Key")}
	o.living[made.ID] = made
	text, _ := json.Marshal(map[string]order{"order": made})
	return orderAnswer{200, string(text)}
}

// doLater does what was put off.
func (o *orders) doLater() {
	o.mu.Lock()
	later := o.later
	o.later = nil
	o.mu.Unlock()
	for _, work := range later {
		work()
	}
}

// left counts the orders that are there.
func (o *orders) left() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.living)
}

// everybodySees is nothing wrong: the lists are not each credential's own.
const everybodySees = "(nothing: everybody sees all orders)"

// ordersTestProfile is the profile for a server, with other members where the test wants.
func ordersTestProfile(t *testing.T, base string, members ...string) *profile {
	t.Helper()
	text := []byte(ordersProfile)
	for n := 0; n < len(members); n += 2 {
		text = bytes.Replace(text, []byte(members[n]), []byte(members[n+1]), 1)
	}
	p, err := parseProfile(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.resolve(environment{"NORTH": "north"}.getenv, "", ""); err != nil {
		t.Fatal(err)
	}
	p.base = mustURL(t, base)
	return p
}

// repeats are the checks that compare an answer with what came the first time.
var repeats = []string{"replay", "changed-body", "in-flight", "failure-frees", "other-route", "hang-up?", "lost-request", "retired-replay"}

// ordersWrong is each way to be wrong and the checks that find it.
var ordersWrong = []struct {
	wrong string
	found []string
	says  string // in the first of them
}{
	{"", nil, ""},
	{everybodySees, nil, ""},
	{"keys are cut", []string{"near-keys"}, "con la que se distingue en lo último: llegó 400"},
	{"keys lose their case", []string{"near-keys"}, "con la que se distingue en una mayúscula: llegó 400"},
	{"a repetition is done later", []string{"late-effects"}, "al contar otra vez: efectos: "},
	{"keys never expire", []string{"expired-key"}, "con el id ord_"},
	{"keys do nothing", []string{"replay", "changed-body", "in-flight", "concurrent-body", "failure-frees", "other-route", "hang-up", "lost-request", "lost-answer",
		"cut-before-head", "cut-after-head", "cut-body", "retired-replay"}, "la repetición trae el cuerpo"},
	{"a replay has other bytes", repeats, "el original era"},
	{"a replay lacks a field", []string{"replay"}, `la repetición trae Order-Version: ""; la original traía "1"`},
	{"a replay is not marked", []string{"replay"}, `la repetición trae Idempotent-Replay: ""; se esperaba "yes"`},
	{"the refused is done", []string{"changed-body", "concurrent-body", "failure-frees"}, "efectos: 2; se esperaba 1"},
	{"a mismatch frees the key", []string{"changed-body"}, "al repetir el original después"},
	{"nobody waits", []string{"in-flight", "hang-up"}, "llegó 500 {}; se esperaba la misma respuesta del original"},
	{"a duplicate works too", []string{"in-flight", "concurrent-body", "hang-up"}, "2 a la vez"},
	{"a running key fits all", []string{"concurrent-body"}, "la otra petición, mientras corre el original: llegó 200"},
	{"failures free keys", []string{"failure-frees"}, "corregida, con la misma llave: llegó 200"},
	{"the body is the key", []string{"changed-body", "concurrent-body", "failure-frees", "two-keys"}, "se esperaba 409 o 400"},
	{"keys are everybody's", []string{"other-credential"}, "la otra credencial recibió lo mismo, con el id ord_"},
	{"keys are every route's", []string{"changed-body", "concurrent-body", "failure-frees", "other-route"}, "se esperaba 409 o 400"},
	{"an empty key is one", []string{"key-empty"}, `con la llave «""» llegó 200`},
	{"two lines are one key", []string{"key-two-lines"}, "llegó 200"},
	{"a long key is one", []string{"key-too-long"}, "llegó 200"},
	{"any byte is a key", []string{"key-non-ascii"}, "llegó 200"},
	{"a hang-up loses the record", []string{"hang-up"}, "efectos: 2; se esperaba 1"},
	{"removal forgets keys", []string{"retired-replay"}, "la repetición trae el cuerpo"},
	{"GET is keyed", []string{"get-with-key"}, "efectos: 0; se esperaba 1"},
	{"PUT is keyed", []string{"put-with-key"}, "lo que puso el PUT no se ve"},
	{"DELETE is keyed", []string{"delete-with-key"}, "del primero quedan 0 efectos y del segundo 1"},
}

// TestVerifyAStrangersAPI: the right server passes, and each wrong one is found by the
// checks that look for it, and by no other.
func TestVerifyAStrangersAPI(t *testing.T) {
	t.Parallel()
	for _, tt := range ordersWrong {
		t.Run(tt.wrong, func(t *testing.T) {
			t.Parallel()
			server := newOrders(tt.wrong)
			var members []string
			if tt.wrong == "" || tt.wrong == "keys never expire" {
				members = []string{`"longest": 64`, `"longest": 64, "lifetime": "` + ordersKeyLife.String() + `"`}
			}
			p := ordersTestProfile(t, "http://"+serveHandler(t, server), members...)
			lines, err := runVerify(t, t.Context(), p, func(v *verification) {
				v.patience, v.late = time.Second, 7*time.Millisecond
				v.wait = func(ctx context.Context, d time.Duration) error {
					if d == v.late {
						server.doLater()
					}
					return pause(ctx, d)
				}
			})
			failed := failedChecks(lines)
			if !sameChecks(failed, tt.found) || (err == nil) != (len(tt.found) == 0) {
				t.Errorf("run = %v, failed %q, want %q:\n%s", err, failed, tt.found, strings.Join(lines, "\n"))
			}
			if first := slices.IndexFunc(lines, func(l string) bool { return strings.HasPrefix(l, "FAIL") }); first >= 0 && !strings.Contains(lines[first], tt.says) {
				t.Errorf("first failure = %q, want it to say %q", lines[first], tt.says)
			}
			if told := strings.Join(lines, "\n"); strings.Contains(told, "quedó sin retirar") {
				t.Errorf("something is said to be left:\n%s", told)
			}
			if left := server.left(); left > 0 && tt.wrong != "DELETE is keyed" && !slices.Contains(tt.found, "hang-up") { // an original may outlive a run that gave up on it
				t.Errorf("%d orders are left, want none:\n%s", left, strings.Join(lines, "\n"))
			}
		})
	}
}

// TestEveryCheckFindsSomething: no check is there for nothing.
func TestEveryCheckFindsSomething(t *testing.T) {
	t.Parallel()
	for _, c := range promiseChecks(revisorTestProfile(t)) {
		found := c.id == "quoted-key" || c.id == "key-control" // found with the other server: see TestVerifyFindsEachDefect
		for _, row := range ordersWrong {
			found = found || slices.Contains(row.found, c.id)
		}
		if !found {
			t.Errorf("nothing wrong is found by %s", c.id)
		}
	}
}
