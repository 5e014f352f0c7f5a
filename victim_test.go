//go:build unix

// victim_test.go owns a server process that is killed and started again, many times,
// with the same arguments: on the same file and at the same address.

package main

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// victim is the program, ready to be started again after it was killed. Unlike a child it
// does not keep all that its processes say, only the end: they say a great deal.
type victim struct {
	t    *testing.T
	args []string

	started time.Time
	cmd     *exec.Cmd
	said    *lastWords
	exited  chan struct{}
}

// newVictim prepares it: start starts it. Whatever happens it is gone when the test ends.
func newVictim(t *testing.T, args ...string) *victim {
	t.Helper()
	v := &victim{t: t, args: args}
	t.Cleanup(func() {
		if v.cmd != nil {
			v.kill()
		}
		if v.said != nil && t.Failed() {
			t.Logf("revisor %s said at the end:\n…%s", args, v.said)
		}
	})
	return v
}

// launch starts it.
func (v *victim) launch() {
	v.t.Helper()
	path, err := testBinary()
	if err != nil {
		v.t.Fatal(err)
	}
	said, exited := &lastWords{}, make(chan struct{})
	cmd := exec.Command(path, v.args...)
	cmd.Env = []string{"TMPDIR=" + os.TempDir()}
	cmd.Dir = os.TempDir()
	cmd.Stderr = said
	v.started = time.Now()
	if err := cmd.Start(); err != nil {
		v.t.Fatal(err)
	}
	go func() {
		defer close(exited)
		cmd.Wait()
	}()
	v.cmd, v.said, v.exited = cmd, said, exited
}

// start starts it, and returns when it listens.
func (v *victim) start() {
	v.t.Helper()
	v.launch()
	soon(v.t, "the server listens", func() bool {
		select {
		case <-v.exited:
			v.t.Fatalf("%s ended by itself:\n%s", v.cmd, v.said)
		default:
		}
		return v.said.listening()
	})
}

// kill ends it as a power cut would, and returns when it is gone.
func (v *victim) kill() kill {
	k := kill{started: v.started, at: time.Now()}
	v.cmd.Process.Kill()
	<-v.exited
	v.cmd, k.dead = nil, time.Now()
	return k
}

// nextCommit returns when something was committed to a database, of which its client is
// about to be told; or after patience.
//
// The wal-index counts the transactions of a database at byte 8 ("iChange",
// sqlite.org/walformat.html section 2.1), and does so after the log was synced. Reading
// the file takes no lock and so disturbs nobody; but it has to be quick to see the moment.
func nextCommit(db string, patience time.Duration) {
	index, err := os.Open(db + "-shm")
	if err != nil {
		return // nothing was committed yet
	}
	defer index.Close()
	count := func() uint32 {
		var header [12]byte
		index.ReadAt(header[:], 0)
		return binary.NativeEndian.Uint32(header[8:])
	}
	before, deadline := count(), time.Now().Add(patience)
	for count() == before && time.Now().Before(deadline) {
		runtime.Gosched()
	}
}

// lastWords keeps the end of what a process says, and whether it listens.
type lastWords struct {
	mu    sync.Mutex
	text  []byte
	ready bool
}

func (w *lastWords) Write(p []byte) (int, error) {
	const most = 4 << 10
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = append(w.text, p...)
	w.ready = w.ready || bytes.Contains(w.text, []byte("msg=listening role="))
	if len(w.text) > 2*most {
		w.text = append(w.text[:0], w.text[len(w.text)-most:]...)
	}
	return len(p), nil
}

func (w *lastWords) listening() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ready
}

func (w *lastWords) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.text)
}

// reserveAddress finds an address on loopback that stays free until the test ends: a
// socket is bound to it, which does not listen. A program that asks for this very port
// gets it, as Go sets SO_REUSEADDR; nobody who asks for any port does. Without it,
// another test could take the port while the victim is dead.
func reserveAddress(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	syscall.CloseOnExec(fd)
	t.Cleanup(func() { syscall.Close(fd) })
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
}

// soon is eventually for what happens within milliseconds.
func soon(t *testing.T, what string, done func() bool) {
	t.Helper()
	pollEvery(t, 200*time.Microsecond, what, done)
}
