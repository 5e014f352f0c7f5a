// labroutes_test.go owns that everything the bench does is told, in GET /ayuda and in the
// README, and that the reader of paths can be trusted with any.

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestLabIsDocumented: no route and no form without its words, in both places, and no row
// of the README without its route.
func TestLabIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n### lab ")
	section, _, ended := strings.Cut(section, "\n### ")
	if !found || !ended {
		t.Fatal("README has no section about the lab")
	}
	_, help := benchExchange(t, startLab(t), "GET", "/ayuda")
	var patterns []string
	for _, route := range new(lab).routeTable() {
		patterns = append(patterns, route.pattern)
		if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(route.methods) + ` +` + regexp.QuoteMeta(route.pattern) + ` +\S`).MatchString(help) {
			t.Errorf("GET /ayuda says nothing of %s %s", route.methods, route.pattern)
		}
		if route.methods != "DELETE" && !regexp.MustCompile("(?m)^\\| `(GET )?"+regexp.QuoteMeta(route.pattern)+"` \\|").MatchString(section) {
			t.Errorf("README has no row for %s %s", route.methods, route.pattern)
		}
	}
	for _, row := range regexp.MustCompile("(?m)^\\| `(?:GET )?(/[^`]*)`").FindAllStringSubmatch(section, -1) {
		if !slices.Contains(patterns, row[1]) {
			t.Errorf("README has a row for %s, which is no route", row[1])
		}
	}
	var forms []string
	for _, form := range retryForms {
		forms = append(forms, form.name)
	}
	for _, form := range loopForms {
		forms = append(forms, form.name)
	}
	for _, form := range slices.Concat(cutPlaces, lengthForms, chunkForms, endlessForms) {
		forms = append(forms, form.name)
	}
	for _, form := range forms {
		if !strings.Contains(help, "\n  "+form+" ") {
			t.Errorf("GET /ayuda does not tell the form %s", form)
		}
		if !strings.Contains(section, "`"+form+"`") {
			t.Errorf("README does not tell the form %s", form)
		}
	}
}

// FuzzFindLabRoute: a path finds one route, whose arguments put into its pattern are the
// path again; or none.
func FuzzFindLabRoute(f *testing.F) {
	for _, seed := range []string{
		"", "*", "/", "//", "/codigo/200", "/codigo/", "/codigo/200/", "/goteo/1/2", "/goteo/cabeceras/1/2", "/corte/fin/", "/corte/FIN/antes",
		"/secuencia/503:2,201", "/NNN", "/codigo/NNN", "/bucle/cadena/3", "/contadores", "/ayuda", "/%61yuda",
	} {
		f.Add(seed)
	}
	routes := new(lab).routeTable()
	f.Fuzz(func(t *testing.T, path string) {
		route, args := findLabRoute(routes, path)
		if route == nil {
			return
		}
		pattern, _, _ := strings.Cut(route.pattern, "?")
		argument := regexp.MustCompile(`[A-Z]+`)
		if got := len(argument.FindAllString(pattern, -1)); got != len(args) {
			t.Fatalf("findLabRoute(%q) = %s with %d arguments, want %d", path, pattern, len(args), got)
		}
		again := argument.ReplaceAllStringFunc(pattern, func(string) string {
			next := args[0]
			args = args[1:]
			return next
		})
		if again != path {
			t.Errorf("findLabRoute(%q) = %s, which reads %q", path, pattern, again)
		}
	})
}
