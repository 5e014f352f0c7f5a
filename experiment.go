// experiment.go owns the tool experiment: six things that a client can do after its answer
// was lost, the conversation of each, and what the origin is seen to have done. It speaks
// HTTP like any client; it must not know revisor's insides, how its servers are made, nor
// how what came of it is told.

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const (
	// experimentPath is the action, and experimentRecords the origin's own records of
	// it. Nothing makes a revision unique: a repeat really is a second effect.
	experimentPath    = "/servicios/1/revisiones"
	experimentRecords = "/servicios/1/informe"
	// experimentInput is the body of the action, experimentOtherInput a changed one.
	experimentInput      = `{"motivo":"ensayo"}`
	experimentOtherInput = `{"motivo":"otro ensayo"}`
	// experimentPatience bounds one request. Between servers of one process an answer
	// takes milliseconds.
	experimentPatience = 10 * time.Second
)

// clientResult is what the client got in the end, in one word. Its value is its name in
// JSON and CSV.
type clientResult string

const (
	gotSecondEffect clientResult = "exito-segundo-efecto"     // a success, and another effect
	gotRecorded     clientResult = "exito-respuesta-guardada" // the very answer that was lost
	gotRefused      clientResult = "422-rechazada"            // the key belongs to another request
	gotExisting     clientResult = "200-encontrada"           // the operation, finished, and its resource
	gotOther        clientResult = "otro"                     // none of these
)

// cells is one row of the matrix: what the origin received and did, and what the client got.
type cells struct {
	posts, gets, effects int
	result               clientResult
}

// experimentCase is one thing to do after the lost answer.
type experimentCase struct {
	id          string // in JSON and CSV
	action      string // for a person
	ignoresKeys bool   // the origin does
	keyed       bool   // the first POST has a key
	then        func(c *conversation) call
	want        cells
}

// experimentCases are the rows of the matrix, as it must come out.
func experimentCases() []experimentCase {
	repeat := func(c *conversation) call { return c.post(c.key, experimentInput) }
	return []experimentCase{
		{id: "sin-contrato", action: "repetir, sin contrato", then: repeat,
			want: cells{2, 0, 2, gotSecondEffect}},
		{id: "llave-ignorada", action: "repetir, llave que se ignora", ignoresKeys: true, keyed: true, then: repeat,
			want: cells{2, 0, 2, gotSecondEffect}},
		{id: "misma-llave", action: "repetir, misma llave y entrada", keyed: true, then: repeat,
			want: cells{2, 0, 1, gotRecorded}},
		{id: "llave-nueva", action: "repetir, llave nueva", keyed: true,
			then: func(c *conversation) call { return c.post(c.newKey(), experimentInput) },
			want: cells{2, 0, 2, gotSecondEffect}},
		{id: "otra-entrada", action: "misma llave, otra entrada", keyed: true,
			then: func(c *conversation) call { return c.post(c.key, experimentOtherInput) },
			want: cells{2, 0, 1, gotRefused}},
		{id: "preguntar", action: "preguntar, sin segundo POST", keyed: true,
			then: func(c *conversation) call { return c.ask("/operaciones/" + url.PathEscape(c.key)) },
			want: cells{1, 1, 1, gotExisting}},
	}
}

// scene is the servers of one case.
type scene struct {
	gateway *url.URL     // where the client speaks: it loses answers when asked to
	judge   *url.URL     // the same origin, past the gateway and the observer
	token   string       // of a writer who may act on service 1
	close   func() error // ends the servers; nothing of them is left
}

// experiment is one run of all cases.
type experiment struct {
	// open starts the servers of a case, whose origin may ignore keys. They must let
	// seen stand around the origin, and tell it what the gateway does with the answer.
	open   func(seen *observer, ignoresKeys bool) (*scene, error)
	newKey func() string
	now    func() time.Time
}

// caseReport is what came of a case.
type caseReport struct {
	experimentCase
	got        cells
	last       string // the client's last answer, or why there was none, in one line
	attempts   int    // POSTs that the client sent
	failures   int    // requests after which the client knew nothing of the outcome
	unresolved int    // operations of which it knows nothing in the end
	order      []event
}

// run makes all cases, one after the other. An error means that there is no matrix.
func (e *experiment) run(ctx context.Context) ([]caseReport, error) {
	var reports []caseReport
	for _, c := range experimentCases() {
		report, err := e.runCase(ctx, c)
		if ctx.Err() != nil {
			return nil, errors.New("interrumpido")
		}
		if err != nil {
			return nil, fmt.Errorf("caso %s: %w", c.id, err)
		}
		reports = append(reports, report)
	}
	return reports, nil
}

// runCase makes one case on servers of its own.
func (e *experiment) runCase(ctx context.Context, c experimentCase) (report caseReport, err error) {
	seen := newObserver(e.now)
	servers, err := e.open(seen, c.ignoresKeys)
	if err != nil {
		return caseReport{}, err
	}
	defer func() { err = errors.Join(err, servers.close()) }()
	talk := &conversation{
		experiment: e, ctx: ctx, servers: servers, seen: seen, transport: newTransport(),
		report: caseReport{experimentCase: c},
	}
	err = talk.hold()
	return talk.report, err
}

// conversation is what client and judge say in one case.
type conversation struct {
	*experiment
	ctx       context.Context // of the case, which is one call
	servers   *scene
	seen      *observer
	transport *http.Transport
	key       string // of the first POST; "" for none
	report    caseReport
}

// hold makes the first request, loses its answer, and does what the case says.
func (c *conversation) hold() error {
	before, err := c.seen.begin(c.countEffects)
	if err != nil {
		return err
	}
	if c.report.keyed {
		c.key = c.newKey()
	}
	first := c.post(c.key, experimentInput)
	first.header.Set(simulateHeader, loseFirst)
	if got, err := c.send(first); !failed(got, err) {
		return fmt.Errorf("la pasarela no perdió la primera respuesta: %s", got.line())
	}
	between, err := c.seen.look()
	if err != nil {
		return err
	}
	next := c.report.then(c)
	got, failure := c.send(next)
	after, err := c.seen.look()
	if err != nil {
		return err
	}
	c.conclude(next, got, failure, after-between)
	c.report.got.posts, c.report.got.gets = c.seen.arrivals(http.MethodPost), c.seen.arrivals(http.MethodGet)
	c.report.got.effects = after - before
	c.report.order = c.seen.order()
	return nil
}

// post is the action, with a key or without one ("").
func (c *conversation) post(key, input string) call {
	header := http.Header{"Authorization": {"Bearer " + c.servers.token}, "Content-Type": {"application/json"}}
	if key != "" {
		header.Set(keyHeader, keyField(key))
	}
	return call{method: http.MethodPost, base: c.servers.gateway, path: experimentPath, header: header, body: []byte(input)}
}

// ask is a question, which changes nothing.
func (c *conversation) ask(path string) call {
	return call{method: http.MethodGet, base: c.servers.gateway, path: path, header: http.Header{"Authorization": {"Bearer " + c.servers.token}}}
}

// send makes a request of the client, once.
func (c *conversation) send(request call) (answer, error) {
	if request.method == http.MethodPost {
		c.report.attempts++
	}
	c.seen.sends()
	got, err := attempt(c.ctx, c.transport, experimentPatience, observedBody, request)
	if failed(got, err) {
		c.report.failures++
		c.seen.saw(clientFails)
	} else {
		c.seen.saw(clientLearns)
	}
	return got, err
}

// failed tells whether a request leaves its client without knowing what came of it: no
// whole answer, or one that says that somebody on the way or at the end failed.
func failed(got answer, err error) bool { return err != nil || got.status >= 500 }

// conclude puts the client's last answer into a word, and says what it still does not
// know. grown is how many effects came with that last request.
func (c *conversation) conclude(request call, got answer, err error, grown int) {
	c.report.last = got.line()
	if err != nil {
		c.report.last = "sin respuesta: " + whyNoAnswer(err)
	}
	c.report.got.result = c.resultOf(request, got, err, grown)
	// Of the first operation nothing is known, unless its own answer came after all or
	// it was found finished. A second success says nothing of it, nor does a refusal:
	// that is also what a key gets whose original still runs.
	if result := c.report.got.result; result != gotRecorded && result != gotExisting {
		c.report.unresolved++
	}
	// Another POST that fails is another unknown, unless the key makes it the same.
	if failed(got, err) && request.method == http.MethodPost && (c.key == "" || request.header.Get(keyHeader) != keyField(c.key)) {
		c.report.unresolved++
	}
}

// resultOf names the client's last answer by what it is and does, not by what was hoped
// for: the recorded answer is one that equals the lost one to the byte.
func (c *conversation) resultOf(request call, got answer, err error, grown int) clientResult {
	lost := c.seen.answer(1)
	location := lost.header.Get("Location")
	success := got.status >= 200 && got.status < 300
	switch {
	case err != nil:
		return gotOther
	case request.method == http.MethodGet:
		var state struct {
			Estado  string `json:"estado"`
			Recurso string `json:"recurso"`
		}
		if got.status == http.StatusOK && json.Unmarshal(got.body, &state) == nil && state.Estado == "terminada" && state.Recurso == location {
			return gotExisting
		}
	case got.status == http.StatusUnprocessableEntity && got.problemType() == problemBase+"llave-reutilizada":
		return gotRefused
	case success && got.header.Get(replayedHeader) == "true" && grown == 0 &&
		got.status == lost.status && got.header.Get("Location") == location && string(got.body) == string(lost.body):
		return gotRecorded
	case success && got.header.Get(replayedHeader) != "true" && grown == 1 && got.header.Get("Location") != location:
		return gotSecondEffect
	}
	return gotOther
}

// countEffects is the judge's question: how many revisions of the service there are.
func (c *conversation) countEffects() (int, error) {
	question := c.ask(experimentRecords)
	question.base = c.servers.judge
	got, err := attempt(c.ctx, c.transport, experimentPatience, observedBody, question)
	if err != nil {
		return 0, fmt.Errorf("GET %s: %s", experimentRecords, whyNoAnswer(err))
	}
	var records struct {
		Revisiones *int `json:"revisiones"`
	}
	if got.status != http.StatusOK || json.Unmarshal(got.body, &records) != nil || records.Revisiones == nil {
		return 0, fmt.Errorf("GET %s: %s", experimentRecords, got.line())
	}
	return *records.Revisiones, nil
}

// differences lists the cells that are not as the matrix says, one line each.
func (r caseReport) differences() []string {
	var list []string
	compare := func(cell string, got, want any) {
		if got != want {
			list = append(list, fmt.Sprintf("%s: %v, se esperaba %v", cell, got, want))
		}
	}
	compare("post", r.got.posts, r.want.posts)
	compare("get", r.got.gets, r.want.gets)
	compare("efectos_confirmados", r.got.effects, r.want.effects)
	compare("resultado", r.got.result, r.want.result)
	return list
}

// judgeMatrix is nil when every cell is as it must be; otherwise it says which is not.
func judgeMatrix(reports []caseReport) error {
	var wrong []string
	for _, r := range reports {
		for _, difference := range r.differences() {
			wrong = append(wrong, "caso "+r.id+", "+difference)
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	return fmt.Errorf("la matriz no es la esperada: %s", strings.Join(wrong, "; "))
}
