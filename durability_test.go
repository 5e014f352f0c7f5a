// durability_test.go watches the system calls of a real process: an answer that says
// that something was written leaves only after the log was synced to the disk.

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// traced starts a demo under strace. The process is the program itself: the tracer is
// its grandchild and ends with it.
func traced(t *testing.T, output, db string) *child {
	t.Helper()
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Skip("strace is not installed: the order of the system calls was not looked at")
	}
	program, err := testBinary()
	if err != nil {
		t.Fatal(err)
	}
	c := spawnProgram(t, strace, "-D", "-f", "-y", "-qq", "-s", "100", "-o", output,
		"-e", "trace=fsync,fdatasync,write,pwrite64,writev,pwritev,sendto,sendmsg", program,
		"--demo", "--listen", "127.0.0.1:0", "--lab-listen", "127.0.0.1:0", "--gateway-listen", "127.0.0.1:0",
		"--allow", "127.0.0.1", "--save-delay", "0s", "--queue-delay", "20s", "--db", db)
	c.ready()
	return c
}

// What one line of a trace may say. A call that another thread interrupted is written
// as two lines; the first one tells when it began, the second one when it returned.
var (
	logWrite  = regexp.MustCompile(`^\d+ +p?write(64|v)?\(\d+<[^>]*-wal>`)
	logSynced = regexp.MustCompile(`^\d+ +f(data)?sync\(\d+<[^>]*-wal>\) += 0$`)
	syncBegun = regexp.MustCompile(`^(\d+) +f(data)?sync\(\d+<[^>]*-wal> <unfinished`)
	syncEnded = regexp.MustCompile(`^(\d+) +<\.\.\. f(data)?sync resumed>\) += 0$`)
	sentOK    = regexp.MustCompile(`^\d+ +(write|writev|sendto|sendmsg)\(\d+<(socket|TCP)[^>]*>, .*HTTP/1\.1 (20[0-9])`)
)

// answersAfterSync reads a trace: for each success in it, whether the log was written
// and then synced since the one before.
func answersAfterSync(trace string) (durable []bool) {
	written, synced := false, false
	begun := map[string]bool{} // by thread: nothing was written to the log since its sync began
	for line := range strings.Lines(trace) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case logWrite.MatchString(line):
			written, synced = true, false
			clear(begun)
		case logSynced.MatchString(line):
			synced = written
		case syncBegun.MatchString(line):
			begun[syncBegun.FindStringSubmatch(line)[1]] = true
		case syncEnded.MatchString(line):
			synced = synced || written && begun[syncEnded.FindStringSubmatch(line)[1]]
		case sentOK.MatchString(line):
			durable = append(durable, synced)
			written, synced = false, false
		}
	}
	return durable
}

func TestAnswersLeaveAfterTheSync(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	output := filepath.Join(dir, "trace")
	c := traced(t, output, filepath.Join(dir, "revisor.db"))
	requests := []struct{ method, path, body, header string }{
		{"POST", "/servicios", anyService("avisos"), "Idempotency-Key: k1"},
		{"POST", "/servicios", anyService("otro"), ""},
		{"POST", "/servicios/1/revisiones", "", "Idempotency-Key: k2"},
		{"POST", "/servicios/1/revisiones", "", ""},
		{"PUT", "/servicios/7", anyService("cambiado"), "If-Match: *"},
		{"DELETE", "/servicios/8", "", ""},
	}
	for _, r := range requests {
		if got := c.call(r.method, r.path, "escritura-a", r.body, r.header); got.status >= 300 {
			t.Fatalf("%s %s = %s, want a success", r.method, r.path, got.verdict())
		}
	}
	replay := c.call("POST", "/servicios", "escritura-a", anyService("avisos"), "Idempotency-Key: k1")
	if replay.replayed() != "true" {
		t.Fatalf("POST = %s, want a replay", replay.verdict())
	}
	c.kill()
	var durable []bool
	var trace string
	eventually(t, fmt.Sprint("the trace has all ", len(requests)+1, " answers"), func() bool {
		content, err := os.ReadFile(output)
		if err != nil {
			t.Fatal(err)
		}
		trace = string(content)
		durable = answersAfterSync(trace)
		return len(durable) > len(requests)
	})
	for i, r := range requests {
		if !durable[i] {
			t.Errorf("%s %s was answered before the log was synced:\n%s", r.method, r.path, trace)
			break
		}
	}
	if durable[len(requests)] {
		t.Error("a replay wrote to the log, want that it only reads")
	}
}

// TestReadingATrace: the reader of traces finds an answer that left too soon.
func TestReadingATrace(t *testing.T) {
	t.Parallel()
	const (
		write   = "7 pwrite64(12</x/revisor.db-wal>, \"\", 24, 32) = 24\n"
		synced  = "7 fsync(12</x/revisor.db-wal>) = 0\n"
		begun   = "7 fdatasync(12</x/revisor.db-wal> <unfinished ...>\n"
		ended   = "7 <... fdatasync resumed>) = 0\n"
		failed  = "7 fsync(12</x/revisor.db-wal>) = -1 EIO (Input/output error)\n"
		other   = "7 fsync(16</x/revisor.db>) = 0\n"
		answer  = "8 write(18<socket:[887410]>, \"HTTP/1.1 201 Created\\r\\n\", 274) = 274\n"
		refused = "8 write(18<socket:[887410]>, \"HTTP/1.1 503 Service Unavailable\\r\\n\", 274) = 274\n"
	)
	tests := []struct {
		name, trace string
		want        string
	}{
		{"in order", write + synced + answer, "[true]"},
		{"in order, interrupted", write + begun + ended + answer, "[true]"},
		{"no sync", write + answer + synced, "[false]"},
		{"sync still under way", write + begun + answer + ended, "[false]"},
		{"sync of something else", write + other + answer, "[false]"},
		{"sync before the write", synced + write + answer, "[false]"},
		{"sync begun before the write", begun + write + ended + answer, "[false]"},
		{"sync failed", write + failed + answer, "[false]"},
		{"nothing written", synced + answer, "[false]"},
		{"one after the other", write + synced + answer + write + answer, "[true false]"},
		{"failures are no promise", write + refused, "[]"},
	}
	for _, tt := range tests {
		if got := fmt.Sprint(answersAfterSync(tt.trace)); got != tt.want {
			t.Errorf("%s: answersAfterSync = %s, want %s", tt.name, got, tt.want)
		}
	}
}
