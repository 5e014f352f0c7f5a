// rawanswers_test.go owns the bytes of the bench's answers that are not HTTP as it should
// be, how each of them ends, and that nothing keeps them alive. Its client speaks TCP.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What is above and below every odd answer of a bench whose clock stands.
const (
	oddDate = "Date: Wed, 21 Oct 2026 22:26:31 GMT\r\nContent-Type: text/plain; charset=utf-8\r\n"
	oddHead = "HTTP/1.1 200 OK\r\n" + oddDate
	oddTail = "Connection: close\r\n\r\n"
)

// oddBench is a lab with limits, a standing clock and a log, which stops as the process does.
type oddBench struct {
	*httptest.Server
	log  *benchLog
	stop context.CancelFunc
}

func startOddBench(t *testing.T, limits labLimits) *oddBench {
	t.Helper()
	b := &oddBench{log: &benchLog{}}
	var base context.Context
	base, b.stop = context.WithCancel(context.Background())
	b.Server = serveWith(t, newLab(labConfig{limits: limits, log: b.log.logger(), now: newFakeClock().Now}), stopsWith(base))
	t.Cleanup(b.stop) // before the server is closed
	return b
}

// readToEnd reads to the end of a connection, and tells whether that was a FIN or an RST.
func readToEnd(t *testing.T, conn net.Conn) (got, how string) {
	t.Helper()
	bytes, err := io.ReadAll(conn)
	switch {
	case err == nil:
		return string(bytes), "FIN"
	case errors.Is(err, syscall.ECONNRESET):
		return string(bytes), "RST"
	}
	return string(bytes), err.Error()
}

func TestRawAnswerBytes(t *testing.T) {
	t.Parallel()
	text := func(path string) string { return "200 OK\nGET " + path + "\n" }
	length := func(n any) string { return fmt.Sprintf("%sContent-Length: %v\r\n%s", oddHead, n, oddTail) }
	chunked := oddHead + "Transfer-Encoding: chunked\r\n" + oddTail
	inChunks := func(path, format string) string {
		return chunked + strings.NewReplacer("HALF", fmt.Sprintf("%x", len(text(path))/2), "TWICE", fmt.Sprintf("%x", 2*len(text(path))),
			"SIZE", fmt.Sprintf("%x", len(text(path))), "TEXT", text(path)).Replace(format)
	}
	tests := []struct {
		path, want, ends string
		status           int // that the log tells
	}{
		{"/corte/fin/antes", "", "FIN", 0},
		{"/corte/rst/antes", "", "RST", 0},
		{"/corte/fin/estado", "HTTP/1.1 2", "FIN", 0},
		{"/corte/rst/estado", "HTTP/1.1 2", "RST", 0},
		{"/corte/fin/cabeceras", "HTTP/1.1 200 OK\r\nContent-Type: text/pl", "FIN", 200},
		{"/corte/rst/cabeceras", "HTTP/1.1 200 OK\r\nContent-Type: text/pl", "RST", 200},
		{"/corte/fin/tras-cabeceras", length(1000), "FIN", 200},
		{"/corte/rst/tras-cabeceras", length(1000), "RST", 200},
		{"/corte/fin/cuerpo", length(1010) + "el banco d", "FIN", 200},
		{"/corte/rst/cuerpo?bytes=3", length(1003) + "el ", "RST", 200},
		{"/corte/fin/cuerpo?bytes=0", length(1000), "FIN", 200},
		{"/corte/fin/trozo", chunked + "3f2\r\nel banco d", "FIN", 200},
		{"/corte/rst/trozo?bytes=1", chunked + "3e9\r\ne", "RST", 200},

		{"/longitud/corta", length(13) + text("/longitud/corta"), "FIN", 200},
		{"/longitud/larga", length(54) + text("/longitud/larga"), "FIN", 200},
		{"/longitud/dos", length("25\r\nContent-Length: 26") + text("/longitud/dos"), "FIN", 200},
		{"/longitud/palabra", length("muchos") + text("/longitud/palabra"), "FIN", 200},
		{"/longitud/negativa", length("-30") + text("/longitud/negativa"), "FIN", 200},
		{"/longitud/enorme", length(strings.Repeat("9", 20)) + text("/longitud/enorme"), "FIN", 200},
		{"/longitud/con-trozos", length("5\r\nTransfer-Encoding: chunked") + "20\r\n" + text("/longitud/con-trozos") + "\r\n0\r\n\r\n", "FIN", 200},

		{"/trozos/no-hexadecimal", inChunks("/trozos/no-hexadecimal", "xyz\r\nTEXT\r\n0\r\n\r\n"), "FIN", 200},
		{"/trozos/negativo", inChunks("/trozos/negativo", "-SIZE\r\nTEXT\r\n0\r\n\r\n"), "FIN", 200},
		{"/trozos/enorme", inChunks("/trozos/enorme", "fffffffffffffffff\r\nTEXT\r\n0\r\n\r\n"), "FIN", 200},
		{"/trozos/sin-salto", inChunks("/trozos/sin-salto", "SIZE\r\nTEXT0\r\n\r\n"), "FIN", 200},
		{"/trozos/mas-largo", inChunks("/trozos/mas-largo", "HALF\r\nTEXT\r\n0\r\n\r\n"), "FIN", 200},
		{"/trozos/mas-corto", inChunks("/trozos/mas-corto", "TWICE\r\nTEXT\r\n0\r\n\r\n"), "FIN", 200},
		{"/trozos/sin-final", inChunks("/trozos/sin-final", "SIZE\r\nTEXT\r\n"), "FIN", 200},

		{"/sin-fin/cabeceras", "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-Sin-Fin: el banco de pruebas se porta mal cuando se le pide, y esto solo\r\n", 3)[:200], "FIN", 200},
		{"/sin-fin/cabecera", "HTTP/1.1 200 OK\r\nX-Sin-Fin: " + strings.Repeat("x", 200), "FIN", 200},
		{"/sin-fin/cuerpo", chunked + strings.Repeat("40\r\n"+fillerLine+"\r\n", 3)[:200], "FIN", 200},

		{"/cuerpo/0", length(0), "FIN", 200},
		{"/cuerpo/70", length(70) + fillerLine + "el ban", "FIN", 200},
		{"/goteo/3/1", length(3) + "el ", "FIN", 200},
		{"/goteo/cabeceras/3/1", "HTTP/1.1 200 OK\r\nX-Goteo: el \r\n" + oddDate + "Content-Length: 32\r\n" + oddTail + text("/goteo/cabeceras/3/1"), "FIN", 200},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			t.Parallel()
			b := startOddBench(t, labLimits{delay: 10 * time.Second, bytes: 200, requests: 1})
			for _, method := range []string{"GET", "HEAD"} {
				conn := benchDial(t, b.Server)
				fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: banco\r\n\r\n", method, tt.path)
				got, how := readToEnd(t, conn)
				conn.Close()
				want := tt.want
				if head, _, whole := strings.Cut(want, "\r\n\r\n"); whole && method == "HEAD" {
					want = head + "\r\n\r\n"
				}
				if got != want || how != tt.ends {
					t.Errorf("%s %s = %q, %s, want %q, %s", method, tt.path, got, how, want, tt.ends)
				}
				path, _, _ := strings.Cut(tt.path, "?")
				b.log.waitFor(t, fmt.Sprintf("method=%s path=%s status=%d\n", method, path, tt.status))
			}
		})
	}
}

// TestRawAnswerToASender: what a client sends beside its header section makes no reset of
// a FIN, and what it was sent arrives.
func TestRawAnswerToASender(t *testing.T) {
	t.Parallel()
	b := startOddBench(t, labTestLimits)
	conn := benchDial(t, b.Server)
	const size = 3 << 20
	fmt.Fprintf(conn, "GET /corte/fin/cuerpo HTTP/1.1\r\nHost: banco\r\nContent-Length: %d\r\n\r\n", size)
	if _, err := conn.Write(make([]byte, size)); err != nil {
		t.Fatalf("send the body: %v", err)
	}
	conn.CloseWrite()
	if got, how := readToEnd(t, conn); !strings.HasSuffix(got, "\r\n\r\nel banco d") || how != "FIN" {
		t.Errorf("answer = %q, %s, want a cut body, FIN", got, how)
	}
}

// TestRawAnswerEndsEarly: an answer that would go on ends when the client leaves, when the
// process stops and when its time is up, with nothing left of it: its line in the log
// comes last of all.
func TestRawAnswerEndsEarly(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, path := range []string{"/longitud/abierta", "/goteo/10/8000000", "/goteo/cabeceras/10/8000000", "/sin-fin/cuerpo", "/sin-fin/cabeceras"} {
		endless := labLimits{delay: day, bytes: 1 << 50, requests: 1}
		begin := func(t *testing.T, limits labLimits) (*oddBench, *net.TCPConn) {
			b := startOddBench(t, limits)
			conn := benchDial(t, b.Server)
			fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: banco\r\n\r\n", path)
			if _, err := io.ReadFull(conn, make([]byte, len("HTTP/1.1 200 OK\r\n"))); err != nil {
				t.Fatalf("GET %s: %v", path, err)
			}
			return b, conn
		}
		line := fmt.Sprintf("path=%s status=200\n", path)
		t.Run("client leaves "+path, func(t *testing.T) {
			t.Parallel()
			b, conn := begin(t, endless)
			conn.Close()
			b.log.waitFor(t, line)
		})
		t.Run("process stops "+path, func(t *testing.T) {
			t.Parallel()
			b, _ := begin(t, endless)
			b.stop()
			b.log.waitFor(t, line)
		})
	}
	t.Run("time is up", func(t *testing.T) {
		t.Parallel()
		b := startOddBench(t, labLimits{delay: 0, bytes: 200, requests: 1})
		conn := benchDial(t, b.Server)
		start := time.Now()
		fmt.Fprint(conn, "GET /longitud/abierta HTTP/1.1\r\nHost: banco\r\n\r\n")
		got, _ := readToEnd(t, conn)
		if took := time.Since(start); !strings.HasPrefix(got, "HTTP/1.1 200 OK\r\n") || took < lingerTime {
			t.Errorf("answer = %q, ended after %v, want one that is held for %v", got, took, lingerTime)
		}
	})
}

func TestRawLimits(t *testing.T) {
	t.Parallel()
	b := startOddBench(t, labLimits{delay: time.Second, bytes: 200, requests: 100})
	tests := []struct{ name, method, target, want string }{
		{"a wait", "GET", "/lento/1001", "400 Bad Request\nGET /lento/1001: el banco no espera más de 1000 ms\n"},
		{"a body", "GET", "/cuerpo/201", "400 Bad Request\nGET /cuerpo/201: el banco no envía más de 200 bytes\n"},
		{"a body of no size that there is", "GET", "/cuerpo/99999999999999999999", "400 "},
		{"no size", "GET", "/cuerpo/-1", "404 "},
		{"a size of nothing", "GET", "/cuerpo/", "404 "},
		{"all drops together", "GET", "/goteo/11/100", "400 Bad Request\nGET /goteo/11/100: el goteo entero no puede durar más de 1000 ms ni pasar de 200 bytes\n"},
		{"drops too many", "GET", "/goteo/201/1", "400 "},
		{"drops of a product that overflows", "GET", "/goteo/4611686018427387904/4", "400 "},
		{"a drop that never comes", "GET", "/goteo/0/99999999999999999999", "400 "},
		{"no time between drops", "GET", "/goteo/1/0", "400 "},
		{"drops of a header", "GET", "/goteo/cabeceras/11/100", "400 "},
		{"no number of drops", "GET", "/goteo/x/1", "404 "},
		{"no time", "GET", "/goteo/1/x", "404 "},
		{"how much of a body", "GET", "/corte/fin/cuerpo?bytes=201", "400 Bad Request\nGET /corte/fin/cuerpo?bytes=201: bytes va de 0 a 200\n"},
		{"no number of bytes", "GET", "/corte/fin/cuerpo?bytes=x", "400 "},
		{"a query of two halves", "GET", "/corte/fin/cuerpo?bytes=3;x", "400 Bad Request\nGET /corte/fin/cuerpo?bytes=3;x: lo que sigue al signo ? no se puede leer\n"},
		{"a broken escape in a size", "GET", "/corte/fin/cuerpo?bytes=%zz", "400 "},
		{"a broken escape in a name", "GET", "/secuencia/200?k=%zz", "400 "},
		{"a broken escape in a wait", "GET", "/espera/segundos?segundos=%zz", "400 "},
		{"a broken escape in a status", "GET", "/bucle/mismo?codigo=%zz", "400 "},
		{"a broken escape in a field", "GET", "/codigo/503?retry-after=%zz", "400 "},
		{"an unknown place", "GET", "/corte/fin/nunca", "404 "},
		{"an unknown end", "GET", "/corte/ack/antes", "404 "},
		{"no place", "GET", "/corte/fin/", "404 "},
		{"an unknown length", "GET", "/longitud/x", "404 "},
		{"an unknown chunk", "GET", "/trozos/x", "404 "},
		{"an unknown flow", "GET", "/sin-fin/x", "404 "},
		{"the form before the method", "POST", "/trozos/x", "404 "},
		{"the method before the value", "POST", "/cuerpo/201", "405 "},
		{"POST to a cut", "POST", "/corte/rst/antes", "405 "},
		{"POST to drops", "POST", "/goteo/1/1", "405 "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			response, got := benchExchange(t, b.Server, tt.method, tt.target)
			if !strings.HasPrefix(got, tt.want) || strings.Count(got, "\n") != 2 {
				t.Errorf("%s %s = %q, want two lines that begin with %q", tt.method, tt.target, got, tt.want)
			}
			if allow := response.Header.Get("Allow"); (allow == "GET, HEAD") != (tt.want == "405 ") {
				t.Errorf("%s %s: Allow = %q", tt.method, tt.target, allow)
			}
		})
	}
}

// TestRawAnswerThatIsReadLate: its close does not add to the time that the answer has.
func TestRawAnswerThatIsReadLate(t *testing.T) {
	t.Parallel()
	const size = 16 << 20 // above what fits on the way
	b := startOddBench(t, labLimits{delay: 0, bytes: size, requests: 1})
	conn := benchDial(t, b.Server)
	start := time.Now()
	fmt.Fprintf(conn, "GET /cuerpo/%d HTTP/1.1\r\nHost: banco\r\n\r\n", size)
	timer := time.NewTimer(lingerTime / 2)
	<-timer.C // it reads nothing for so long: the wait is what is tested
	if n, err := io.Copy(io.Discard, conn); err != nil || n < size {
		t.Errorf("%d bytes, %v, want all", n, err)
	}
	b.log.waitFor(t, fmt.Sprintf("path=/cuerpo/%d status=200\n", size)) // the client has not closed its side
	if took := time.Since(start); took < lingerTime/2 || took > lingerTime+lingerTime/4 {
		t.Errorf("it was held for %v, want about %v", took, lingerTime)
	}
}

// TestLabFlood: who comes when the bench is full is told so at once, the counters can be
// asked all the same, and a place that becomes free is taken.
func TestLabFlood(t *testing.T) {
	t.Parallel()
	const places = 4
	b := startOddBench(t, labLimits{delay: 100 * time.Second, bytes: 200, requests: places})
	held := make([]*net.TCPConn, places)
	for i := range held {
		held[i] = benchDial(t, b.Server)
		fmt.Fprintf(held[i], "GET %s HTTP/1.1\r\nHost: banco\r\n\r\n", []string{"/lento/99999", "/longitud/abierta"}[i%2])
	}
	waitCounted(t, b.Server, "/lento/99999")
	eventually(t, "the bench is full", func() bool {
		response, _ := benchExchange(t, b.Server, "GET", "/ayuda")
		return response.StatusCode == 503
	})
	flood := make(chan string)
	for range 10 * places {
		go func() {
			conn, err := net.Dial("tcp", b.Listener.Addr().String())
			if err != nil {
				flood <- err.Error()
				return
			}
			defer conn.Close()
			conn.SetDeadline(time.Now().Add(labPatience))
			io.WriteString(conn, benchRequest("GET", "/codigo/200"))
			got, err := io.ReadAll(conn)
			flood <- fmt.Sprint(string(got), err)
		}()
	}
	for range 10 * places {
		got := <-flood
		if !strings.HasPrefix(got, "HTTP/1.1 503 ") || !strings.Contains(got, "\r\nRetry-After: 1\r\n") ||
			!strings.HasSuffix(got, "503 Service Unavailable\nGET /codigo/200: el banco ya atiende 4 peticiones a la vez, que es su límite\n<nil>") {
			t.Errorf("answer of a full bench = %q, want its 503", got)
		}
	}
	for _, conn := range held {
		conn.Close()
	}
	eventually(t, "the bench recovers", func() bool {
		response, _ := benchExchange(t, b.Server, "GET", "/codigo/200")
		return response.StatusCode == 200
	})
}

// TestRawAnswersInGo: what Go's client makes of them.
func TestRawAnswersInGo(t *testing.T) {
	t.Parallel()
	server := startLab(t)
	transport := oneRequestTransport(nil, 64<<10)
	tests := []struct{ path, want string }{ // of the error: at the head, or "body: " and that in the body
		{"/corte/fin/antes", "EOF"},
		{"/corte/rst/antes", "reset by peer"},
		{"/corte/fin/cabeceras", "unexpected EOF"},
		{"/corte/fin/cuerpo", "body: unexpected EOF"},
		{"/corte/rst/cuerpo", "body: reset by peer"},
		{"/corte/fin/trozo", "body: unexpected EOF"},
		{"/longitud/larga", "body: unexpected EOF"},
		{"/longitud/dos", "multiple Content-Length"},
		{"/longitud/palabra", "bad Content-Length"},
		{"/longitud/negativa", "bad Content-Length"},
		{"/trozos/no-hexadecimal", "body: invalid byte in chunk length"},
		{"/trozos/enorme", "body: chunk length too large"},
		{"/trozos/sin-salto", "body: malformed chunked encoding"},
		{"/trozos/mas-largo", "body: malformed chunked encoding"},
		{"/trozos/sin-final", "body: unexpected EOF"},
		{"/sin-fin/cabeceras", "server response headers exceeded"},
		{"/sin-fin/cabecera", "server response headers exceeded"},
		{"/goteo/5/1", "body: <nil>"},
		{"/cuerpo/1000000", "body: <nil>"},
	}
	for _, tt := range tests {
		t.Run(tt.path, func(t *testing.T) {
			t.Parallel()
			request, err := http.NewRequest(http.MethodGet, server.URL+tt.path, nil)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			response, err := transport.RoundTrip(request)
			if err == nil {
				_, err = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				got = "body: "
			}
			got += fmt.Sprint(err)
			where, what, inBody := strings.Cut(tt.want, ": ")
			if !inBody {
				where, what = "", tt.want
			}
			if strings.HasPrefix(got, "body: ") != (where == "body") || !strings.Contains(got, what) {
				t.Errorf("GET %s = %q, want %q", tt.path, got, tt.want)
			}
		})
	}
}

// TestRawAnswersInCurl: the exit status that a script sees.
func TestRawAnswersInCurl(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed: the exit statuses that a script sees were not looked at")
	}
	server := startLab(t)
	tests := []struct {
		name, path string
		want       int
	}{
		{"nothing came", "/corte/fin/antes", 52},
		{"reset", "/corte/rst/cuerpo", 56},
		{"a part of the body", "/corte/fin/cuerpo", 18},
		{"a part of what was declared", "/longitud/larga", 18},
		{"no length", "/longitud/palabra", 8},
		{"no chunk", "/trozos/no-hexadecimal", 56},
		{"round and round", "/bucle/ida", 47},
		{"a chain short enough", "/bucle/cadena/5", 0},
		{"a chain too long", "/bucle/cadena/6", 47},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := exec.Command("curl", "-sL", "--max-redirs", "5", "--noproxy", "*", "-o", t.TempDir()+"/body", server.URL+tt.path).Run()
			var exit *exec.ExitError
			got := 0
			if errors.As(err, &exit) {
				got = exit.ExitCode()
			} else if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("curl %s: exit status %d, want %d", tt.path, got, tt.want)
			}
		})
	}
}
