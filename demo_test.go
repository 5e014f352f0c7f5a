// demo_test.go runs --demo as a newcomer would.

package main

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// practiceList is what an administrator sees of a new demo.
func practiceList(lab string) string {
	return strings.ReplaceAll(`{"servicios":[`+
		`{"id":1,"nombre":"catalogo","url":"http://LAB/codigo/200","limite_ms":2000},`+
		`{"id":2,"nombre":"pagos","url":"http://LAB/codigo/503","limite_ms":2000},`+
		`{"id":3,"nombre":"nomina","url":"http://LAB/codigo/200","limite_ms":2000},`+
		`{"id":4,"nombre":"inventario","url":"http://LAB/lento/1500","limite_ms":2000},`+
		`{"id":5,"nombre":"reportes","url":"http://LAB/lento/3000","limite_ms":1000},`+
		`{"id":6,"nombre":"facturacion","url":"http://LAB/basura","limite_ms":2000}]}`+"\n", "LAB", lab)
}

// plainDemo starts a demo as it is, only on free ports.
func plainDemo(t *testing.T, args ...string) *child {
	t.Helper()
	return serving(t, append([]string{"--demo", "--lab-listen", "127.0.0.1:0", "--gateway-listen", "127.0.0.1:0"}, args...)...)
}

func TestDemoServices(t *testing.T) {
	t.Parallel()
	c := plainDemo(t)
	if got, want := c.call("GET", "/servicios", "admin", "").body, practiceList(c.lab); got != want {
		t.Errorf("GET /servicios = %s, want %s", got, want)
	}
	if got := c.call("GET", "/servicios", "escritura-b", ""); !strings.Contains(got.body, `"id":3,`) || strings.Count(got.body, `"id":`) != 1 {
		t.Errorf("GET /servicios of team b = %s, want nomina alone", got.body)
	}
	for id, want := range map[int]string{1: "200", 2: "200", 4: "200", 5: "504 servicio-lento", 6: "502 respuesta-invalida"} {
		as := "escritura-a"
		if id > 3 {
			as = "lectura-a" // three live checks a minute each
		}
		if got := c.call("GET", fmt.Sprintf("/servicios/%d/salud", id), as, ""); got.verdict() != want {
			t.Errorf("GET /servicios/%d/salud = %s, want %s", id, got.verdict(), want)
		}
	}
	if got := c.call("POST", "/servicios", "escritura-a", anyService("otro")); got.verdict() != "422 destino-prohibido" {
		t.Errorf("POST of a destination that is not the lab = %s, want 422 destino-prohibido", got.verdict())
	}
}

// TestDemoTakesItsTime: a registration half a second, so that "in flight" can be seen;
// a revision a second in the queue.
func TestDemoTakesItsTime(t *testing.T) {
	t.Parallel()
	c := plainDemo(t)
	began := time.Now()
	if got := c.call("POST", "/servicios", "escritura-a", c.service("avisos")); got.status != 201 {
		t.Fatalf("POST /servicios = %s, want 201", got.verdict())
	}
	if took := time.Since(began); took < demoSaveDelay {
		t.Errorf("POST /servicios took %v, want at least %v", took, demoSaveDelay)
	}
	began = time.Now()
	location := c.call("POST", "/servicios/1/revisiones", "escritura-a", "").header.Get("Location")
	eventually(t, "the revision is finished", func() bool {
		return c.call("GET", location, "escritura-a", "").member("estado") == "terminada"
	})
	if took := time.Since(began); took < demoQueueDelay {
		t.Errorf("the revision took %v, want at least %v", took, demoQueueDelay)
	}
}

// TestDemoCommandsCanBePasted: what it prints says where everything is, and works.
func TestDemoCommandsCanBePasted(t *testing.T) {
	t.Parallel()
	c := plainDemo(t)
	eventually(t, "the demo tells what runs where", func() bool { return strings.Count(c.stdout.String(), "\n  curl ") == 3 })
	told := c.stdout.String()
	for _, role := range []string{"revisor", "lab", "gateway"} {
		if !strings.Contains(told, "http://"+c.listeningOn(role)) {
			t.Errorf("told = %s, want the address of %s, %s", told, role, c.listeningOn(role))
		}
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed: the commands were not run")
	}
	want := []string{`"nombre":"catalogo"`, "HTTP/1.1 502", `"estado":"terminada"`}
	for i, line := range regexp.MustCompile(`(?m)^  (curl .*)$`).FindAllStringSubmatch(told, -1) {
		output, err := exec.Command("sh", "-c", line[1]+" -s --noproxy '*'").Output()
		if err != nil || !strings.Contains(string(output), want[i]) {
			t.Errorf("%s = %s, %v, want %s", line[1], output, err, want[i])
		}
	}
}

// TestDemoOnADatabase: only an empty one gets the six services, and everything
// survives a restart.
func TestDemoOnADatabase(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "revisor.db")
	first := demo(t, "--db", db)
	lab := first.lab
	first.registered("escritura-a", anyService("avisos"))
	first.call("DELETE", "/servicios/2", "escritura-a", "")
	before := first.call("GET", "/servicios", "admin", "").body
	first.stop()

	second := demo(t, "--db", db)
	if got := second.call("GET", "/servicios", "admin", "").body; got != before {
		t.Errorf("GET /servicios after the restart = %s, want %s", got, before)
	}
	for _, path := range []string{"/servicios/1", "/servicios/3", "/servicios/4", "/servicios/5", "/servicios/6", "/servicios/7"} {
		second.call("DELETE", path, "admin", "")
	}
	second.stop()

	third := demo(t, "--db", db) // nothing lives, but it is not empty
	if got := third.call("GET", "/servicios", "admin", "").body; got != "{\"servicios\":[]}\n" {
		t.Errorf("GET /servicios = %s, want none: the lab was at %s", got, lab)
	}
}

// TestTwoDemosOnOneDatabase, started together: six services between them, and one
// effect for each key.
func TestTwoDemosOnOneDatabase(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "revisor.db")
	both := make([]*child, 2)
	for i := range both {
		both[i] = spawn(t, "--demo", "--listen", "127.0.0.1:0", "--lab-listen", "127.0.0.1:0", "--gateway-listen", "127.0.0.1:0",
			"--allow", "127.0.0.1", "--save-delay", "0s", "--db", db)
	}
	for _, c := range both {
		c.ready()
	}
	one, two := both[0], both[1]
	for round := range 8 {
		name := fmt.Sprint("s", round)
		answers := one.atOnce(8, func(i int) (response, error) {
			return both[i%2].try(t.Context(), "POST", "/servicios", "escritura-a", anyService(name), "Idempotency-Key: "+name, "Prefer: wait=30")
		})
		counts, bodies := map[string]int{}, map[string]bool{}
		for _, got := range answers {
			counts[got.verdict()+" "+got.replayed()]++
			bodies[got.body] = true
		}
		if counts["201 false"] != 1 || counts["201 true"] != 7 || len(bodies) != 1 {
			t.Errorf("answers = %v, %d bodies, want one 201 false, 7 replays, all the same", counts, len(bodies))
		}
	}
	if n := strings.Count(two.call("GET", "/servicios", "admin", "").body, `"id":`); n != 6+8 {
		t.Errorf("%d services, want 14", n)
	}
	for _, c := range both {
		if strings.Contains(c.stderr.String(), "locked") {
			t.Errorf("log = %s, want nothing of locks", c.stderr)
		}
	}
}
