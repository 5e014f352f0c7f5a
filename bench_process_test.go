// bench_process_test.go owns the figures of a whole process: memory, and the time from
// its start to its first answer with a large file. Run with
//
//	go test -run '^$' -bench Process -benchtime 1x

//go:build linux

package main

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// measuredProcess is a demo on a database of its own, without the pretended delays.
type measuredProcess struct {
	command *exec.Cmd
	address string
	began   time.Time
}

// startMeasured starts the built program and reads its address from its log.
func startMeasured(b *testing.B, database string) *measuredProcess {
	b.Helper()
	binary, err := testBinary()
	if err != nil {
		b.Fatal(err)
	}
	p := &measuredProcess{began: time.Now()}
	p.command = exec.Command(binary, "--demo", "--db", database, "--save-delay", "0s", "--no-check",
		"--listen", "127.0.0.1:0", "--lab-listen", "127.0.0.1:0", "--gateway-listen", "127.0.0.1:0")
	log, err := p.command.StderrPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := p.command.Start(); err != nil {
		b.Fatal(err)
	}
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "role=revisor address="); ok {
			p.address = rest
			break
		}
	}
	go func() { // its log goes nowhere, but must not block it
		for lines.Scan() {
		}
	}()
	b.Cleanup(func() { p.stop(b) })
	return p
}

func (p *measuredProcess) stop(b *testing.B) {
	if p.command.ProcessState == nil {
		p.command.Process.Signal(syscall.SIGTERM)
		if err := p.command.Wait(); err != nil {
			b.Errorf("the process ended with %v", err)
		}
	}
}

// residentMB is the memory that the process holds, in MB.
func (p *measuredProcess) residentMB(b *testing.B) float64 {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.command.Process.Pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				b.Fatal(err)
			}
			return float64(kb) * 1024 / 1e6
		}
	}
	b.Fatal("no VmRSS")
	return 0
}

// firstAnswer waits for the process to answer a request.
func (p *measuredProcess) firstAnswer(b *testing.B) time.Duration {
	b.Helper()
	for {
		resp, err := http.Get("http://" + p.address + "/idempotencia")
		if err == nil {
			resp.Body.Close()
			return time.Since(p.began)
		}
		if time.Since(p.began) > 30*time.Second {
			b.Fatal(err)
		}
	}
}

// BenchmarkProcess prints the figures of a process.
func BenchmarkProcess(b *testing.B) {
	for range b.N {
		f := figures{b}
		dir := b.TempDir()
		p := startMeasured(b, filepath.Join(dir, "memory.db"))
		p.firstAnswer(b)
		f.ratio("memory idle, MB", p.residentMB(b), "under 25")
		var samples []float64
		measured := make(chan load)
		go func() { measured <- measure(b, 256, 0, registrations(p.address, "memory")) }()
		for running := true; running; {
			select {
			case l := <-measured:
				f.row("keyed POST, 256 connections, a process", l)
				running = false
			case <-time.After(100 * time.Millisecond):
				samples = append(samples, p.residentMB(b))
			}
		}
		early, late := samples[:len(samples)/2], samples[len(samples)/2:]
		f.ratio("memory with 256 connections writing, MB", slices.Max(samples), "under 160")
		f.ratio("memory in the second half over the first", slices.Max(late)/slices.Max(early), "about 1 in a long run")
		p.stop(b)

		large := filepath.Join(dir, "large.db")
		st, err := openStore(large, newTag)
		if err != nil {
			b.Fatal(err)
		}
		fillKeys(b, st, "old", *figuresKeys, time.Now().Add(time.Hour))
		if err := st.close(); err != nil {
			b.Fatal(err)
		}
		again := startMeasured(b, large)
		f.ratio("first answer with many keys, s", again.firstAnswer(b).Seconds(), "at most 0.2")
		again.stop(b)
	}
}
