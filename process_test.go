// process_test.go runs the real program: it builds it once, starts it on free ports,
// talks to it over loopback and sends signals to it, by the process id it was given.

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// exitTime is what a stopping process may take: drainTime, and time to spare.
const exitTime = drainTime + 5*time.Second

// testBinary is the program as a person would build it. Its directory is removed when
// all tests have run.
var testBinary = sync.OnceValues(func() (path string, err error) {
	dir, err := os.MkdirTemp("", "revisor-test-")
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "revisor")
	build := exec.Command("go", "build", "-buildvcs=false", "-o", path, ".")
	if output, err := build.CombinedOutput(); err != nil {
		os.RemoveAll(dir)
		return "", fmt.Errorf("go build: %w\n%s", err, output)
	}
	testBinaryDir = dir
	return path, nil
})

var testBinaryDir string

func TestMain(m *testing.M) {
	code := m.Run()
	if testBinaryDir != "" {
		os.RemoveAll(testBinaryDir)
	}
	os.Exit(code)
}

// child is a running program. As a bench it is its role revisor.
type child struct {
	*bench
	cmd    *exec.Cmd
	stdout *syncBuffer
	stderr *syncBuffer
	exited chan struct{} // closed when it has, and code is its exit status
	code   int
}

// spawn starts the program with an environment of its own: "NAME=value" among args
// sets a variable. Whatever happens it is gone when the test ends.
func spawn(t *testing.T, args ...string) *child {
	t.Helper()
	path, err := testBinary()
	if err != nil {
		t.Fatal(err)
	}
	return spawnProgram(t, path, args...)
}

func spawnProgram(t *testing.T, path string, args ...string) *child {
	t.Helper()
	c := &child{bench: &bench{t: t}, stdout: &syncBuffer{}, stderr: &syncBuffer{}, exited: make(chan struct{})}
	c.cmd = exec.Command(path)
	c.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + t.TempDir()}
	c.cmd.Dir = t.TempDir()
	for _, arg := range args {
		if environmentSetting.MatchString(arg) {
			c.cmd.Env = append(c.cmd.Env, arg)
		} else {
			c.cmd.Args = append(c.cmd.Args, arg)
		}
	}
	c.cmd.Stdout, c.cmd.Stderr = c.stdout, c.stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.exited)
		err := c.cmd.Wait()
		var exit *exec.ExitError
		switch {
		case errors.As(err, &exit):
			c.code = exit.ExitCode() // -1 when a signal ended it
		case err != nil:
			c.code = -2
		}
	}()
	t.Cleanup(func() {
		c.kill()
		if t.Failed() {
			t.Logf("%s\nstdout: %s\nstderr: %s", c.cmd, c.stdout, c.stderr)
		}
	})
	return c
}

var environmentSetting = regexp.MustCompile(`^[A-Z_]+=`)

// listeningOn finds the address of a role in the log.
func (c *child) listeningOn(role string) string {
	pattern := regexp.MustCompile(`msg=listening role=` + role + ` address=(\S+)`)
	if found := pattern.FindStringSubmatch(c.stderr.String()); found != nil {
		return found[1]
	}
	return ""
}

// serving starts the program and returns when its revisor listens on a port of its own.
func serving(t *testing.T, args ...string) *child {
	t.Helper()
	c := spawn(t, append(args, "--listen", "127.0.0.1:0")...)
	c.ready()
	return c
}

// ready waits until the revisor listens, and with --demo the other roles too.
func (c *child) ready() {
	c.t.Helper()
	last := "revisor" // in the order of the log
	if slices.Contains(c.cmd.Args, "--demo") {
		last = "gateway"
	}
	eventually(c.t, "the "+last+" listens", func() bool {
		select {
		case <-c.exited:
			c.t.Fatalf("%s ended with status %d:\n%s", c.cmd, c.code, c.stderr)
		default:
		}
		return c.listeningOn(last) != ""
	})
	c.url = "http://" + c.listeningOn("revisor")
	c.lab = c.listeningOn("lab")
}

// demo starts a demo on free ports, which may check anything on loopback. It works
// without the pretended delays unless args say otherwise.
func demo(t *testing.T, args ...string) *child {
	t.Helper()
	fast := []string{
		"--demo", "--lab-listen", "127.0.0.1:0", "--gateway-listen", "127.0.0.1:0",
		"--allow", "127.0.0.1", "--save-delay", "0s", "--queue-delay", "0s",
	}
	return serving(t, append(fast, args...)...)
}

// finish waits for the end and returns the exit status.
func (c *child) finish() int {
	c.t.Helper()
	select {
	case <-c.exited:
	case <-time.After(exitTime):
		c.t.Fatalf("%s did not end within %v", c.cmd, exitTime)
	}
	return c.code
}

// stop ends it as a person would, and expects that it ends well.
func (c *child) stop() {
	c.t.Helper()
	c.signal(syscall.SIGTERM)
	if code := c.finish(); code != 0 {
		c.t.Errorf("exit status after SIGTERM = %d, want 0", code)
	}
}

// kill ends it as a power cut would.
func (c *child) kill() {
	c.cmd.Process.Kill()
	<-c.exited
}

func (c *child) signal(s os.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatalf("signal %v: %v", s, err)
	}
}

// command runs the program to its end.
func command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	c := spawn(t, args...)
	code = c.finish()
	return code, c.stdout.String(), c.stderr.String()
}

// anyService is a registration whose body does not depend on where the lab listens.
// Nothing listens at its destination.
func anyService(name string) string {
	return `{"nombre":"` + name + `","url":"http://127.0.0.1:9/"}`
}

// named counts the services of that name.
func (c *child) named(name string) int {
	c.t.Helper()
	return strings.Count(c.call("GET", "/servicios", "admin", "").body, `"nombre":"`+name+`"`)
}
