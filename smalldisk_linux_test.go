// smalldisk_linux_test.go gives processes a disk of their own that is small enough to
// fill, in a mount namespace that goes away with the test.

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// smallDisk mounts a file system of so many bytes at the directory it returns, seen by
// this test's goroutine and the processes that it starts, and by nobody else: not by other
// goroutines, so that no store can be opened on it in this process.
func smallDisk(t *testing.T, size int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	// The thread is never given back: it ends, and its namespace with it, when the test does.
	runtime.LockOSThread()
	if err := syscall.Unshare(syscall.CLONE_NEWNS); err != nil {
		t.Skipf("no mount namespace of the test's own (%v): this was not tried; it takes root", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		t.Skipf("mounts cannot be made private: %v", err)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%d", size)); err != nil {
		t.Skipf("no tmpfs: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("unmount: %v", err)
		}
	})
	return dir
}

// fill writes a file until the disk is full, but for room bytes, and returns what gives
// the space back.
func fill(t *testing.T, dir string, room int64) (empty func()) {
	t.Helper()
	var disk syscall.Statfs_t
	if err := syscall.Statfs(dir, &disk); err != nil {
		t.Fatal(err)
	}
	filler, err := os.CreateTemp(dir, "filler-")
	if err != nil {
		t.Fatal(err)
	}
	_, err = filler.Write(make([]byte, max(int64(disk.Bavail)*disk.Bsize-room, 0)))
	if err := errors.Join(err, filler.Close()); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := os.Remove(filler.Name()); err != nil {
			t.Fatal(err)
		}
	}
}

// longService is a registration that takes some pages on file.
func longService(name string) string {
	return `{"nombre":"` + name + `","url":"http://127.0.0.1:9/` + strings.Repeat("x", 12000) + `"}`
}

// TestDiskFillsUnderTheLog: somebody reads for a long time, so that the log cannot begin
// anew and grows until the disk is full. What was answered until then stands; when there
// is room again the same process goes on.
func TestDiskFillsUnderTheLog(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 4<<20)
	db := filepath.Join(disk, "revisor.db")
	c := demo(t, "--db", db)
	endReading := readingFrom(t, db)
	empty := fill(t, disk, 2<<20)
	post := func(c *child, i int) response {
		return c.call("POST", "/servicios", "escritura-a", longService(fmt.Sprint("s", i)), fmt.Sprint("Idempotency-Key: k", i))
	}
	var done []response
	for {
		got := post(c, len(done))
		if got.status != 201 {
			c.expectUnavailable("POST on a disk that filled up", got)
			break
		}
		c.expectFirst(got, 201)
		done = append(done, got)
	}
	if len(done) < 20 {
		t.Fatalf("the disk was full after %d services: the test is not what it says", len(done))
	}
	for i := range 5 {
		c.expectUnavailable("POST on a full disk", post(c, len(done)+i))
	}
	for _, i := range []int{0, len(done) - 1} { // too long to be kept in memory
		c.expectReplay(post(c, i), done[i])
	}
	if got := strings.Count(c.call("GET", "/servicios", "admin", "").body, `"id":`); got != len(practiceServices)+len(done) {
		t.Errorf("%d services, want %d", got, len(practiceServices)+len(done))
	}
	endReading()
	empty()
	last := post(c, len(done))
	c.expectFirst(last, 201)
	done = append(done, last)
	expectMoved(t, db, len(done))
	c.kill()
	next := demo(t, "--db", db)
	for i, first := range done {
		next.expectReplay(post(next, i), first)
	}
	t.Logf("%d services until the disk was full", len(done)-1)
}

// readingFrom holds a view of the database as it is now.
func readingFrom(t *testing.T, path string) (end func()) {
	t.Helper()
	db, err := sql.Open("sqlite", dsn(path, "mode=rw"))
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"BEGIN DEFERRED", "SELECT COUNT(*) FROM services"} {
		if _, err := conn.ExecContext(context.Background(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return func() {
		_, err := conn.ExecContext(context.Background(), "ROLLBACK")
		if err := errors.Join(err, conn.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestStartOnAFullDisk: it is said in one line, in words that do not blame the file, and
// nothing is lost.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	disk := smallDisk(t, 1<<20)
	db := filepath.Join(disk, "revisor.db")
	c := demo(t, "--db", db)
	first := c.call("POST", "/servicios", "escritura-a", anyService("avisos"), "Idempotency-Key: k1")
	c.expectFirst(first, 201)
	c.stop()
	content := filesIn(t, disk)["revisor.db"]

	empty := fill(t, disk, 0)
	for _, name := range []string{"revisor.db", "nuevo.db"} {
		for range 2 {
			expectRefusedStart(t, filepath.Join(disk, name))
		}
	}
	if got := filesIn(t, disk)["revisor.db"]; got != content {
		t.Errorf("the database is %s, want as before, %s", got, content)
	}
	empty()
	for _, name := range []string{"revisor.db", "nuevo.db"} {
		next := demo(t, "--db", filepath.Join(disk, name))
		got := next.call("POST", "/servicios", "escritura-a", anyService("avisos"), "Idempotency-Key: k1")
		if name == "revisor.db" {
			next.expectReplay(got, first)
		} else {
			next.expectFirst(got, 201)
		}
		next.stop()
	}
}

// expectRefusedStart starts a server that has to end with status 1 and one line which
// names the database and does not say that it is damaged.
func expectRefusedStart(t *testing.T, db string) {
	t.Helper()
	c := spawn(t, "--listen", "127.0.0.1:0", "--db", db)
	code, told := c.finish(), c.stderr.String()
	if code != 1 || strings.Count(told, "\n") != 1 || !strings.Contains(told, db) || strings.Contains(told, "dañada") {
		t.Errorf("exit status %d, standard error %q, want 1 and one line about %s", code, told, db)
	}
}

// expectMoved waits until the log is moved into a file of so many large services, each
// of them, with its key, at least 12000 bytes.
func expectMoved(t *testing.T, database string, services int) {
	t.Helper()
	eventually(t, "the log is moved into the file", func() bool {
		info, err := os.Stat(database)
		return err == nil && info.Size() > int64(services)*12000
	})
}
