// descriptors_linux_test.go takes a real process to the end of its file descriptors, and
// to ten thousand connections that say nothing.

package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// descriptors counts the files and connections that a process has open.
func (c *child) descriptors() int {
	c.t.Helper()
	entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", c.cmd.Process.Pid))
	if err != nil {
		c.t.Fatal(err)
	}
	return len(entries)
}

// connect opens a connection that says nothing, and closes it with a reset, so that
// nothing of it stays behind.
func (c *child) connect() *net.TCPConn {
	c.t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(c.url, "http://"))
	if err != nil {
		c.t.Fatal(err)
	}
	conn.(*net.TCPConn).SetLinger(0)
	return conn.(*net.TCPConn)
}

// ask makes one request on a connection.
func (c *child) ask(conn *net.TCPConn, in *bufio.Reader, request, method, path string) response {
	c.t.Helper()
	conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, request); err != nil {
		c.t.Fatal(err)
	}
	return c.readAnswer(in, method, path)
}

// TestDescriptorsRunOut: a server that may open 64 files meets 150 clients. Whoever has a
// connection is served, whoever has none waits until others leave; what was answered
// stands.
func TestDescriptorsRunOut(t *testing.T) {
	t.Parallel()
	const most, many = 64, 150
	const list = "GET /servicios HTTP/1.1\r\nHost: revisor\r\nAuthorization: Bearer admin\r\n\r\n"
	db := t.TempDir() + "/revisor.db"
	program, err := testBinary()
	if err != nil {
		t.Fatal(err)
	}
	c := spawnProgram(t, "/bin/sh", "-c", fmt.Sprintf(`ulimit -n %d && exec "$0" "$@"`, most), program, "--demo", "--db", db,
		"--listen", "127.0.0.1:0", "--lab-listen", "127.0.0.1:0", "--gateway-listen", "127.0.0.1:0",
		"--allow", "127.0.0.1", "--save-delay", "0s", "--queue-delay", "0s")
	c.ready()
	type client struct {
		conn *net.TCPConn
		in   *bufio.Reader
	}
	served := make([]client, 6) // before the others come
	for i := range served {
		conn := c.connect()
		defer conn.Close()
		served[i] = client{conn, bufio.NewReader(conn)}
		c.ask(conn, served[i].in, list, "GET", "/servicios")
	}
	made := map[string]response{}
	post := func(key string) {
		_, request := rawRegistration(key, anyService(key))
		made[key] = c.ask(served[0].conn, served[0].in, request, "POST", "/servicios")
	}
	post("k-antes")

	var silent []*net.TCPConn
	for range many {
		silent = append(silent, c.connect())
	}
	eventually(t, "the descriptors have run out", func() bool {
		return c.descriptors() >= most && strings.Contains(c.stderr.String(), "too many open files")
	})
	for i := range 10 {
		post(fmt.Sprint("k", i))
	}
	// All at once, so that they need all the connections to the database that there may be.
	lists := c.atOnce(len(served), func(i int) (response, error) {
		return c.ask(served[i].conn, served[i].in, list, "GET", "/servicios"), nil
	})
	for _, got := range lists {
		if n := strings.Count(got.body, `"id":`); got.status != 200 || n != len(practiceServices)+len(made) {
			t.Errorf("GET /servicios = %s, %d services, want 200, %d", got.verdict(), n, len(practiceServices)+len(made))
		}
	}
	newcomer := c.connect()
	defer newcomer.Close()
	_, request := rawRegistration("k-nueva", anyService("k-nueva"))
	io.WriteString(newcomer, request)
	for _, conn := range silent {
		conn.Close()
	}
	newcomer.SetDeadline(time.Now().Add(time.Minute))
	made["k-nueva"] = c.readAnswer(bufio.NewReader(newcomer), "POST", "/servicios")
	if log := c.stderr.String(); strings.Contains(log, "internal error") || strings.Contains(log, "panic") {
		t.Errorf("log = %s, want no failure of the server's own", log)
	}
	c.kill()
	next := demo(t, "--db", db)
	for key, first := range made {
		c.expectFirst(first, 201)
		next.expectReplay(next.call("POST", "/servicios", "escritura-a", anyService(key), "Idempotency-Key: "+key), first)
	}
}

// allowDescriptors raises how many files this process may open, and returns how many
// that is.
func allowDescriptors(t *testing.T, want uint64) uint64 {
	t.Helper()
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if limit.Cur >= want {
		return limit.Cur
	}
	limit.Cur = min(want, limit.Max)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	return limit.Cur
}

// TestTenThousandIdleConnections: they cost little memory each, and nobody else waits.
func TestTenThousandIdleConnections(t *testing.T) {
	t.Parallel()
	const wanted, spare = 10_000, 1000
	const most = 32 << 10 // bytes of memory for each
	many := wanted
	if limit := allowDescriptors(t, wanted+spare); limit < wanted+spare {
		many = int(limit) / 2
		t.Logf("this process may open %d files: %d idle connections instead of %d", limit, many, wanted)
	}
	c := demo(t)
	list := "GET /servicios HTTP/1.1\r\nHost: revisor\r\nAuthorization: Bearer lectura-a\r\n\r\n"
	before := residentBytes(c.cmd.Process.Pid)
	var conns []*net.TCPConn
	defer func() {
		for _, conn := range conns {
			conn.Close()
		}
	}()
	answer := make([]byte, 4096)
	for i := range many {
		conn := c.connect()
		conns = append(conns, conn)
		if i%2 == 1 { // half of them have never said anything
			continue
		}
		conn.SetDeadline(time.Now().Add(time.Minute))
		io.WriteString(conn, list)
		if n, err := conn.Read(answer); err != nil || !strings.HasPrefix(string(answer[:n]), "HTTP/1.1 200 OK\r\n") {
			t.Fatalf("answer on connection %d = %q, %v, want 200", i, answer[:n], err)
		}
	}
	each := (residentBytes(c.cmd.Process.Pid) - before) / int64(many)
	t.Logf("%d connections, %d descriptors, %d bytes of memory each", many, c.descriptors(), each)
	if each > most {
		t.Errorf("%d bytes of memory for each connection, want at most %d", each, most)
	}
	if got := c.descriptors(); got < many/2 {
		t.Errorf("%d descriptors with %d connections: they were not kept", got, many)
	}
	first := c.call("POST", "/servicios", "escritura-a", anyService("avisos"), "Idempotency-Key: k1")
	c.expectFirst(first, 201)
	c.expectReplay(c.call("POST", "/servicios", "escritura-a", anyService("avisos"), "Idempotency-Key: k1"), first)
	c.expectFirst(c.call("POST", "/servicios/1/revisiones", "escritura-a", "", "Idempotency-Key: k2"), 202)
}
