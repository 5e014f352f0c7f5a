// readonly_linux_test.go makes files and disks read-only, for a server that runs and for
// one that starts.

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
)

// The attributes of a file that make it read-only for everybody, root and whoever has it
// open included (linux/fs.h).
const (
	getFlags  = 0x80086601
	setFlags  = 0x40086602
	immutable = 0x10
)

// makeImmutable makes files read-only and returns what undoes it.
func makeImmutable(t *testing.T, paths ...string) (undo func()) {
	t.Helper()
	set := func(path string, on bool) error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		var flags uint
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), getFlags, uintptr(unsafe.Pointer(&flags))); errno != 0 {
			return errno
		}
		flags &^= immutable
		if on {
			flags |= immutable
		}
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, f.Fd(), setFlags, uintptr(unsafe.Pointer(&flags))); errno != 0 {
			return errno
		}
		return nil
	}
	undo = func() {
		for _, path := range paths {
			if err := set(path, false); err != nil {
				t.Errorf("make writable: %v", err)
			}
		}
	}
	t.Cleanup(undo) // else the directory could not be removed
	for _, path := range paths {
		if err := set(path, true); err != nil {
			t.Skipf("files cannot be made read-only under a running server here: %v; it takes root and ext4, xfs or btrfs", err)
		}
	}
	return undo
}

// demandImmutable skips the test where a file that is open stays writable (tmpfs).
func demandImmutable(t *testing.T) {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "probe"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	undo := makeImmutable(t, f.Name())
	defer undo()
	if _, err := f.WriteString("x"); err == nil {
		t.Skip("this file system lets whoever has a read-only file open write to it")
	}
}

// TestReadOnlyFile: the database, its log or both become read-only under a running
// server. Who reads notices nothing. Whether writes fail, or only their way from the log
// to the file, all is well when the files are writable again.
func TestReadOnlyFile(t *testing.T) {
	t.Parallel()
	demandImmutable(t)
	tests := []struct {
		name     string
		suffixes []string
		writable bool
	}{
		{"database", []string{""}, true}, // the log takes it
		{"log", []string{"-wal"}, false},
		{"database and log", []string{"", "-wal"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			db := filepath.Join(t.TempDir(), "revisor.db")
			c := demo(t, "--db", db)
			post := func(c *child, key string) response {
				return c.call("POST", "/servicios", "escritura-a", longService(key), "Idempotency-Key: "+key)
			}
			first := post(c, "k1")
			c.expectFirst(first, 201)
			before := c.call("GET", "/servicios", "admin", "").body

			var paths []string
			for _, suffix := range tt.suffixes {
				paths = append(paths, db+suffix)
			}
			undo := makeImmutable(t, paths...)
			c.expectReplay(post(c, "k1"), first)
			descriptors := c.descriptors()
			made := map[string]response{"k1": first}
			for _, key := range []string{"k2", "k3", "k4"} {
				got := post(c, key)
				if tt.writable {
					c.expectFirst(got, 201)
					made[key] = got
				} else {
					c.expectUnavailable("POST to a read-only file", got)
				}
			}
			for range 20 {
				post(c, "k4")
			}
			if got := c.descriptors(); got > descriptors+10 {
				t.Errorf("%d descriptors, want about %d: trouble leaves some behind", got, descriptors)
			}
			if got := c.call("GET", "/servicios", "admin", "").body; got != before && !tt.writable {
				t.Errorf("GET /servicios = %s, want %s", got, before)
			}
			undo()

			for _, key := range []string{"k2", "k3", "k4", "k5"} {
				if _, is := made[key]; !is {
					made[key] = post(c, key)
					c.expectFirst(made[key], 201)
				}
			}
			expectMoved(t, db, len(made))
			c.kill()
			next := demo(t, "--db", db)
			for key, first := range made {
				next.expectReplay(post(next, key), first)
			}
		})
	}
}

// TestStartOnAReadOnlyDisk: whether the last process ended well or was killed, it is said
// in one line, and nothing is touched. Serving what can be read would be no favour: such a
// process could not write later either.
func TestStartOnAReadOnlyDisk(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(*child){"stopped": (*child).stop, "killed": (*child).kill} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := smallDisk(t, 1<<20)
			db := filepath.Join(disk, "revisor.db")
			c := demo(t, "--db", db)
			first := c.call("POST", "/servicios", "escritura-a", anyService("avisos"), "Idempotency-Key: k1")
			c.expectFirst(first, 201)
			end(c)
			before := filesIn(t, disk)
			remount := func(flags uintptr) {
				if err := syscall.Mount("", disk, "", syscall.MS_REMOUNT|flags, ""); err != nil {
					t.Fatal(err)
				}
			}
			remount(syscall.MS_RDONLY)
			expectRefusedStart(t, db)
			expectRefusedStart(t, filepath.Join(disk, "nuevo.db"))
			if diff := cmp.Diff(before, filesIn(t, disk)); diff != "" {
				t.Errorf("files changed (-before +after):\n%s", diff)
			}
			remount(0)
			next := demo(t, "--db", db)
			next.expectReplay(next.call("POST", "/servicios", "escritura-a", anyService("avisos"), "Idempotency-Key: k1"), first)
		})
	}
}
