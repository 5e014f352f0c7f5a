// disk_linux_test.go takes the disk away from a real process, by lowering how large
// its files may grow, and gives it back.

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"
)

// limitFileSize sets how large the files that a process writes may be, in bytes.
func limitFileSize(t *testing.T, pid int, limit uint64) {
	t.Helper()
	limits := syscall.Rlimit{Cur: limit, Max: ^uint64(0)}
	_, _, errno := syscall.Syscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE, uintptr(unsafe.Pointer(&limits)), 0, 0, 0)
	if errno != 0 {
		t.Fatalf("prlimit: %v", errno)
	}
}

// TestDiskRunsFull: 503 as long as it is, nothing half-written, and all is well when
// there is room again.
func TestDiskRunsFull(t *testing.T) {
	t.Parallel()
	db := filepath.Join(t.TempDir(), "revisor.db")
	c := demo(t, "--db", db)
	recorded := c.call("POST", "/servicios", "escritura-a", anyService("antes"), "Idempotency-Key: k0")
	c.expectFirst(recorded, 201)
	before := c.call("GET", "/servicios", "admin", "").body
	limitFileSize(t, c.cmd.Process.Pid, 100) // not even one page fits, wherever it goes
	for range 3 {
		for _, header := range []string{"Idempotency-Key: k1", ""} {
			got := c.call("POST", "/servicios", "escritura-a", anyService("avisos"), header)
			if got.verdict() != "503 almacen-no-disponible" || got.header.Get("Retry-After") != "5" {
				t.Errorf("POST on a full disk = %s, Retry-After %q, want 503 almacen-no-disponible, 5", got.verdict(), got.header.Get("Retry-After"))
			}
		}
	}
	if got := c.call("GET", "/servicios", "admin", "").body; got != before {
		t.Errorf("GET /servicios = %s, want %s", got, before)
	}
	c.expectReplay(c.call("POST", "/servicios", "escritura-a", anyService("antes"), "Idempotency-Key: k0"), recorded)
	if got := c.call("GET", "/operaciones/k1", "escritura-a", ""); got.verdict() != "404 operacion-inexistente" {
		t.Errorf("GET /operaciones/k1 = %s, want 404 operacion-inexistente", got.verdict())
	}
	limitFileSize(t, c.cmd.Process.Pid, ^uint64(0))

	first := c.call("POST", "/servicios", "escritura-a", anyService("avisos"), "Idempotency-Key: k1")
	c.expectFirst(first, 201)
	if got := first.header.Get("Location"); got != "/servicios/8" {
		t.Errorf("Location = %s, want /servicios/8: the failures used up ids", got)
	}
	c.kill()
	next := demo(t, "--db", db)
	next.expectReplay(next.call("POST", "/servicios", "escritura-a", anyService("avisos"), "Idempotency-Key: k1"), first)
	if n := strings.Count(next.call("GET", "/servicios", "admin", "").body, `"id":`); n != 8 {
		t.Errorf("%d services, want 8", n)
	}
}
