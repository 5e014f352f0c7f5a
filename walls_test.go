// walls_test.go owns the walls between our own files: who may use which file's
// declarations. The compiler sees one package; this test sees what each identifier, each
// method and each field belongs to, and fails when an arrow runs the wrong way.

package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// The layers, from the bottom. pure knows no world, storage no wire, edge no route.
var (
	pure = []string{
		"budget.go", "document.go", "etag.go", "faults.go", "field.go", "fingerprint.go", "framing.go", "fresh.go", "keyfield.go", "limiter.go",
		"plan.go", "pointer.go", "prefer.go", "printable.go", "retry.go", "retryforms.go", "rows.go", "serviceurl.go", "status.go", "template.go",
	}
	storage = []string{"backup.go", "checkpoint.go", "dbfile.go", "statements.go", "store.go", "writer.go"}
	edges   = []string{"close.go", "http.go", "panic.go", "problem.go", "serve.go"}
	wire    = slices.Concat(edges, pure)
	// profiles describe an API that verify judges.
	profiles = []string{"profile.go", "profilefile.go", "request.go", "expectation.go", "counting.go"}
	// layers are let through whole: who may use one need not use each of its files.
	layers = [][]string{pure, storage, edges, profiles}
)

// wall is what some files may use of ours beside what is their own: whole files, or
// single declarations with all that belongs to them ("store.go:checkResult"); of a type,
// one method alone ("idempotency.go:engine.do").
type wall struct {
	files  []string
	mayUse []string
}

// walls names every file once.
var walls = []wall{
	{pure, pure},
	{[]string{"panic.go", "pause.go", "progress.go", "transport.go", "version.go", "serve.go"}, nil},
	{storage, slices.Concat(storage, []string{"panic.go"})},

	{[]string{"http.go", "close.go"}, []string{"http.go", "close.go", "document.go", "panic.go", "problem.go"}},
	{[]string{"problem.go"}, []string{
		"http.go", "close.go", "panic.go", "status.go",
		"statements.go:errStoreUnavailable", "writer.go:commitError", "defects.go:defects", "defects.go:abrupt413", "defects.go:reply.sendAbruptly",
	}},

	{[]string{"destination.go"}, []string{"serviceurl.go"}},
	{[]string{"checker.go"}, []string{"destination.go", "retry.go", "serviceurl.go", "transport.go", "store.go:checkResult"}},
	{[]string{"queue.go"}, slices.Concat(storage, []string{"checker.go", "panic.go"})},
	{[]string{"credentials.go"}, []string{"problem.go", "store.go:credential", "store.go:role", "store.go:parseRole",
		"store.go:roleAnyone", "store.go:roleReader", "store.go:roleWriter", "store.go:roleAdmin"}},
	// The engine knows no resource; a defect is a way to get the engine wrong.
	{[]string{"idempotency.go", "recording.go", "sweep.go", "defects.go"}, slices.Concat(wire, storage, []string{
		"idempotency.go", "recording.go", "flight.go", "defects.go", "pause.go", "credentials.go:caller",
	})},
	{[]string{"flight.go"}, []string{"fingerprint.go", "idempotency.go:operation", "store.go:success", "store.go:recordedAnswer"}},
	{[]string{"policy.go"}, slices.Concat(wire, []string{
		"idempotency.go", "recording.go:engine.recorded", "flight.go", "server.go:server", "server.go:serverConfig", "credentials.go:caller",
		"statements.go:errNotFound", "store.go:success", "store.go:recordedAnswer", "store.go:credential",
	})},

	// A resource states the two parts of an operation, and does not know how a key is decided.
	{[]string{"services.go", "servicedata.go", "v1.go", "revisions.go", "maintenance.go"}, slices.Concat(wire, []string{
		"services.go", "servicedata.go", "server.go", "credentials.go", "checker.go", "queue.go:revisionQueue.accept", "destination.go", "pause.go",
		"store.go", "dbfile.go:store", "writer.go:tx", "idempotency.go:operation", "idempotency.go:engine.do", "defects.go:report500",
	})},
	{[]string{"server.go"}, slices.Concat(wire, []string{
		"services.go", "v1.go", "revisions.go", "maintenance.go", "policy.go", "credentials.go", "store.go", "dbfile.go:store", "writer.go:tx",
		"writer.go:writer.write", "statements.go:errNotFound", "idempotency.go:engine", "idempotency.go:workContext",
		"checker.go:checker", "queue.go:revisionQueue", "destination.go:destinations", "defects.go:defects",
	})},
	{[]string{"revisor.go"}, []string{
		"checker.go", "queue.go", "destination.go", "idempotency.go", "sweep.go", "server.go", "dbfile.go:store", "store.go", "writer.go",
		"defects.go:defects", "defects.go:volatileKeys",
	}},

	// The bench and the tools speak HTTP like any stranger.
	{[]string{"script.go"}, wire},
	// The lab's text is never a problem.
	{[]string{"lab.go", "labroutes.go", "labanswers.go", "rawanswers.go", "rawforms.go"}, []string{
		"lab.go", "labroutes.go", "labanswers.go", "rawanswers.go", "rawforms.go", "rawconnection.go", "sequence.go",
		"close.go", "http.go", "panic.go", "field.go", "status.go", "retryforms.go", "script.go:parseScriptWord", "script.go:scriptedAnswer",
	}},
	{[]string{"rawconnection.go"}, []string{"http.go", "close.go:takeConnection", "close.go:lingerTime", "close.go:resetConnection"}},
	{[]string{"sequence.go"}, nil},
	{[]string{"attempt.go"}, slices.Concat(pure, []string{"transport.go", "problem.go:problemBase"})},
	{[]string{"gateway.go", "exchange.go"}, []string{
		"gateway.go", "exchange.go", "upload.go", "delivery.go", "duplicate.go", "faults.go", "pause.go", "http.go",
		"ledger.go:ledger", "ledger.go:arrival", "ledger.go:shownText", "fingerprint.go:parseIdempotencyKey", "keyfield.go:keyHeader",
		"attempt.go:maxAnswerHeader", "printable.go:printable", "attempt.go:whyNoAnswer", "transport.go:oneRequestTransport",
		"panic.go:panicError", "panic.go:logFailure", "problem.go:bareProblem", "serve.go:writeTime",
	}},
	{[]string{"upload.go"}, []string{"close.go:isSmall", "close.go:lingerTime"}},
	{[]string{"delivery.go"}, []string{"close.go:takeConnection", "close.go:closeGently", "close.go:resetConnection", "serve.go:writeTime", "http.go:reply"}},
	{[]string{"duplicate.go"}, []string{
		"exchange.go:exchange", "exchange.go:errAnswerLost", "exchange.go:errUpstreamSlow", "gateway.go:gateway.proxy", "gateway.go:gatewayConfig",
		"delivery.go:nobody", "ledger.go:arrival", "ledger.go:ledger.note",
	}},
	{[]string{"ledger.go"}, []string{"http.go", "problem.go"}},
	{[]string{"register.go"}, slices.Concat(pure, []string{"attempt.go", "http.go:encodeJSON", "problem.go:problemBase"})},
	{[]string{"batch.go"}, []string{
		"rows.go", "budget.go", "outcome.go", "progress.go", "register.go:registrar", "register.go:registration",
	}},
	{[]string{"outcome.go"}, []string{
		"attempt.go:answer", "printable.go", "keyfield.go", "http.go:writeJSON", "problem.go:problemBase", "register.go:ending", "register.go:endedWell", "register.go:attemptLine", "register.go:mayRepeat",
	}},
	// What an API says of itself knows no check, and a check no API.
	{[]string{"leftovers.go"}, nil},
	{[]string{"profilefile.go"}, []string{"printable.go:printable"}},
	{[]string{"profile.go"}, slices.Concat(pure, profiles, []string{"attempt.go:parseBase"})},
	{[]string{"request.go"}, slices.Concat(pure, profiles, []string{"attempt.go:call"})},
	{[]string{"expectation.go", "counting.go"}, slices.Concat(pure, profiles, []string{"attempt.go:answer"})},
	{[]string{"rawcall.go"}, []string{
		"keyfield.go:keyHeader", "transport.go:userAgent",
		"attempt.go:call", "attempt.go:answer", "attempt.go:answerWithin", "attempt.go:maxAnswerHeader", "attempt.go:errAnswerTooLong",
	}},
	{[]string{"verify.go", "fit.go", "intent.go", "checks.go", "burst.go", "malformed.go", "lost.go", "lasting.go", "aftermath.go"}, slices.Concat(pure, profiles, []string{
		"verify.go", "fit.go", "intent.go", "checks.go", "burst.go", "malformed.go", "lost.go", "lasting.go", "aftermath.go", "leftovers.go", "rawcall.go", "report.go",
		"attempt.go:newTransport", "attempt.go:attempt", "attempt.go:call", "attempt.go:answer", "attempt.go:whyNoAnswer", "attempt.go:tellWritten",
	})},
	{[]string{"report.go"}, []string{"junit.go", "tap.go", "progress.go", "printable.go"}},
	{[]string{"junit.go", "tap.go"}, []string{"report.go"}},
	{[]string{"observer.go"}, []string{"attempt.go:answer"}},
	{[]string{"experiment.go"}, slices.Concat(pure, []string{"observer.go", "attempt.go", "problem.go:problemBase"})},
	{[]string{"matrix.go"}, []string{"experiment.go", "observer.go", "http.go:writeJSON"}},
	{[]string{"backoff.go"}, []string{"retry.go", "printable.go:spell", "register.go:registerAttempts"}},

	// The process: it puts together, and knows nobody's insides.
	{[]string{"demo.go"}, slices.Concat(storage, []string{"main.go:addressOf", "servicedata.go:defaultLimitMS"})},
	{[]string{"stage.go"}, []string{
		"main.go", "servecommand.go:serveOptions", "revisor.go", "serve.go", "lab.go:newLab", "lab.go:labConfig", "lab.go:labLimits", "gateway.go:newGateway", "gateway.go:gatewayConfig",
		"faults.go:fault", "faults.go:newFaultPlan", "plan.go:parseFault",
		"defects.go:defects", "defects.go:ignoreKey", "fingerprint.go:schemeOrdered", "credentials.go:practiceWriter", "observer.go", "experiment.go:scene",
	}},
	{[]string{"cli.go"}, []string{
		"servecommand.go:serveCommand", "servecommand.go:serverRoles", "commands.go", "registercommand.go:registerCommand", "databasecommands.go:backupCommand", "databasecommands.go:credentialCommand",
		"main.go:process", "version.go", "defects.go", "credentials.go:practiceWriter", "credentials.go:practiceOtherWriter",
		"faults.go:loseFirst", "ledger.go:ledgerPath", "register.go:registerAttempts", "batch.go:batchConcurrency", "batch.go:maxConcurrency",
	}},
	{[]string{"servecommand.go"}, []string{
		"cli.go", "main.go:process", "revisor.go:revisorSettings", "lab.go:labLimits", "lab.go:labMostBytes", "demo.go", "defects.go", "attempt.go:parseBase",
		"destination.go:parseAllowed", "faults.go:fault", "plan.go", "ledger.go:gatewayAdmin", "fingerprint.go:schemeOrdered", "fingerprint.go:schemeCanonical",
		"policy.go:schemeName", "idempotency.go:workTime",
	}},
	{[]string{"commands.go"}, []string{
		"cli.go:usageError", "servecommand.go:validateListen", "main.go:process", "main.go:errTold", "serve.go:listen", "serve.go:site", "serve.go:serve", "pause.go",
		"verify.go", "profile.go", "report.go:newReporter", "checks.go:promiseChecks", "experiment.go", "matrix.go:writeMatrix", "stage.go", "script.go", "backoff.go",
		"attempt.go:parseBase", "input.go",
	}},
	{[]string{"registercommand.go"}, []string{
		"commands.go", "input.go", "cli.go:usageError", "cli.go:givenFlag", "main.go:process", "main.go:errTold", "pause.go", "register.go", "attempt.go:newTransport", "attempt.go:parseBase", "batch.go", "rows.go:readRows", "rows.go:badRow",
		"rows.go:maxRowsFile", "outcome.go", "printable.go", "defects.go",
	}},
	{[]string{"databasecommands.go"}, slices.Concat(storage, []string{
		"cli.go:usageError", "main.go:process", "main.go:newTag", "credentials.go:newCredential", "policy.go:wireTime",
	})},
	{[]string{"input.go"}, []string{"main.go:process"}},
	{[]string{"main.go"}, []string{
		"cli.go", "servecommand.go", "demo.go", "serve.go", "pause.go", "revisor.go", "lab.go", "gateway.go", "faults.go:newFaultPlan", "ledger.go", "dbfile.go", "statements.go:errStoreUnavailable",
		"credentials.go:practiceCredentials", "destination.go:parseAllowed", "destination.go:systemResolve", "defects.go:defects",
	}},
}

// use is one identifier of ours where it is used: in from, declared in to as name.
type use struct {
	at       token.Position
	from, to string
	name     string // a field's is its type's; a method's is "type.method"
}

// allowed tells whether the wall lets this use through.
func (w wall) allowed(u use) bool {
	return slices.ContainsFunc(w.mayUse, func(entry string) bool { return entry == u.to || u.matches(entry) })
}

// matches tells whether this is a use of what a single declaration's entry names.
func (u use) matches(entry string) bool {
	file, name, single := strings.Cut(entry, ":")
	return single && file == u.to && (name == u.name || strings.HasPrefix(u.name, name+"."))
}

// spelled is what the wall lets through by itself, and not as part of a layer.
func (w wall) spelled() []string {
	var entries []string
	for _, entry := range w.mayUse {
		whole := func(layer []string) bool {
			return slices.Contains(layer, entry) && !slices.ContainsFunc(layer, func(f string) bool { return !slices.Contains(w.mayUse, f) })
		}
		if !slices.ContainsFunc(layers, whole) {
			entries = append(entries, entry)
		}
	}
	return entries
}

// strangers are empty packages in place of those that we import: what is ours can be told
// without reading them.
type strangers map[string]*types.Package

func (s strangers) Import(name string) (*types.Package, error) {
	if s[name] == nil {
		s[name] = types.NewPackage(name, path.Base(name))
		s[name].MarkComplete()
	}
	return s[name], nil
}

// usesOf finds every use, in a product file, of what another one declares.
func usesOf(files []sourceFile) []use {
	var trees []*ast.File
	for _, f := range files {
		if !f.test {
			trees = append(trees, f.tree)
		}
	}
	set := files[0].set
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{}}
	checker := types.Config{Importer: strangers{}, Error: func(error) {}} // strangers have nothing of what is asked of them
	ours, _ := checker.Check("revisor", set, trees, info)
	owners := fieldOwners(ours)
	seen := maps.Clone(info.Uses)
	for _, id := range passedOver(trees, info) {
		if object := ours.Scope().Lookup(id.Name); object != nil {
			seen[id] = object
		}
	}
	var uses []use
	for id, object := range seen {
		if object.Pkg() != ours {
			continue
		}
		name, found := nameOf(object, owners)
		at, to := set.Position(id.Pos()), set.Position(object.Pos()).Filename
		if found && at.Filename != to {
			uses = append(uses, use{at, at.Filename, to, name})
		}
	}
	return uses
}

// passedOver lists the identifiers that the checker passed over, because they stand behind
// something of a stranger's: the type in w.(*recorder). A name behind a point, one that a
// parameter gets, and a composite literal's key are not looked up in our scope.
func passedOver(trees []*ast.File, info *types.Info) []*ast.Ident {
	elsewhere := map[*ast.Ident]bool{}
	var passed []*ast.Ident
	for _, tree := range trees {
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				elsewhere[n.Sel] = true
			case *ast.Field:
				for _, name := range n.Names {
					elsewhere[name] = true
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok {
					elsewhere[key] = true
				}
			case *ast.Ident: // after what holds it
				_, defined := info.Defs[n]
				if _, used := info.Uses[n]; !used && !defined && !elsewhere[n] {
					passed = append(passed, n)
				}
			}
			return true
		})
	}
	return passed
}

// fieldOwners tells for each field of a declared struct the type's name.
func fieldOwners(ours *types.Package) map[types.Object]string {
	owners := map[types.Object]string{}
	for _, name := range ours.Scope().Names() {
		if structure, ok := ours.Scope().Lookup(name).Type().Underlying().(*types.Struct); ok {
			for field := range structure.Fields() {
				owners[field] = name
			}
		}
	}
	return owners
}

// nameOf names what stands at the top level, a method or a field; nothing else is found.
func nameOf(object types.Object, owners map[types.Object]string) (name string, found bool) {
	switch o := object.(type) {
	case *types.Var:
		if o.IsField() {
			return owners[o.Origin()], true
		}
	case *types.Func:
		if receiver := o.Signature().Recv(); receiver != nil {
			typ := receiver.Type()
			if pointer, ok := typ.(*types.Pointer); ok {
				typ = pointer.Elem()
			}
			if named, ok := typ.(*types.Named); ok {
				return named.Obj().Name() + "." + o.Name(), true
			}
			return o.Name(), true
		}
	}
	return object.Name(), object.Parent() == object.Pkg().Scope()
}

// TestWalls: no file uses what its wall keeps from it, and no permission outlives its
// need.
func TestWalls(t *testing.T) {
	t.Parallel()
	files := parseSources(t)
	behind := map[string]wall{}
	for _, w := range walls {
		for _, name := range w.files {
			if _, twice := behind[name]; twice {
				t.Errorf("%s stands behind two walls", name)
			}
			behind[name] = w
		}
	}
	for _, f := range files {
		if _, ok := behind[f.name]; !ok && !f.test {
			t.Errorf("%s stands behind no wall: say what it may use", f.name)
		}
	}
	uses := usesOf(files)
	told := map[string]bool{}
	for _, u := range uses {
		w, walled := behind[u.from]
		wrong := fmt.Sprintf("%s uses %s of %s", u.from, u.name, u.to)
		if walled && !w.allowed(u) && !told[wrong] {
			told[wrong] = true
			t.Errorf("%s: %s", u.at, wrong)
		}
	}
	for _, w := range walls {
		for _, entry := range w.spelled() {
			needed := slices.ContainsFunc(uses, func(u use) bool {
				return slices.Contains(w.files, u.from) && (u.to == entry || u.matches(entry))
			})
			if !needed {
				t.Errorf("%v may use %s and none does", w.files, entry)
			}
		}
	}
}
