// writer_test.go holds the writer to its promises: jobs share a commit and nothing
// else, a refused one leaves no trace, and trouble ends with the group that met it.

package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// holdWriter keeps the writer busy until release is called: what is asked of it
// meanwhile makes up the next group.
func holdWriter(t *testing.T, s *store) (release func()) {
	t.Helper()
	entered, released, finished := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		finished <- s.write(context.Background(), func(*tx) error {
			close(entered)
			<-released
			return nil
		})
	}()
	select {
	case <-entered:
	case err := <-finished:
		t.Fatalf("hold the writer: %v", err)
	}
	release = sync.OnceFunc(func() {
		close(released)
		if err := <-finished; err != nil {
			t.Errorf("held write = %v, want nil", err)
		}
	})
	t.Cleanup(release)
	return release
}

// queued gives the writer a job and does not wait for it.
func queued(t *testing.T, s *store, ctx context.Context, do func(*tx) error) (result <-chan error) {
	t.Helper()
	j := &job{ctx: ctx, do: do, result: make(chan error, 1)}
	if err := s.enqueue(j); err != nil {
		t.Fatal(err)
	}
	return j.result
}

// inserting registers a service and then ends as it is told.
func inserting(name string, end func() error) func(*tx) error {
	return func(t *tx) error {
		_, taken, err := t.insertService("a", name, "http://x/", 2000, time.Now())
		switch {
		case err != nil:
			return err
		case taken:
			return errTaken
		}
		return end()
	}
}

var (
	errTaken   = errors.New("name taken")
	errRefused = errors.New("refused")
)

func fine() error { return nil }

// idsByName is what is registered.
func idsByName(t *testing.T, s *store) map[string]int64 {
	t.Helper()
	services, err := s.livingServices(allTeams)
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]int64{}
	for _, svc := range services {
		ids[svc.name] = svc.id
	}
	return ids
}

// TestNeighboursInAGroup: each job of one group ends in its own way, and those that
// are refused use up no id.
func TestNeighboursInAGroup(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	release := holdWriter(t, s)
	background := context.Background()
	ended, end := context.WithCancel(background)
	var ran bool
	tests := []struct {
		name string
		ctx  context.Context
		do   func(*tx) error
		want func(error) bool
	}{
		{"first", background, inserting("one", fine), isNil},
		{"refuses", background, inserting("two", func() error { return errRefused }), is(errRefused)},
		{"panics", background, inserting("three", func() error { panic("boom") }), isPanic},
		{"breaks a rule of the file", background, func(t *tx) error {
			return t.exec(`INSERT INTO revisions (service, created_at) VALUES (77, 0)`)
		}, func(err error) bool { return err != nil && !errors.Is(err, errStoreUnavailable) }},
		{"waited too long", ended, func(*tx) error { ran = true; return nil }, is(errStoreUnavailable)},
		{"sees its elder neighbour", background, inserting("one", fine), is(errTaken)},
		{"last", background, inserting("four", fine), isNil},
	}
	var results []<-chan error
	for _, tt := range tests {
		results = append(results, queued(t, s, tt.ctx, tt.do))
	}
	end()
	release()
	for i, tt := range tests {
		if err := <-results[i]; !tt.want(err) {
			t.Errorf("%s: write = %v", tt.name, err)
		}
	}
	if ran {
		t.Error("the job whose context had ended was run")
	}
	if diff := cmp.Diff(map[string]int64{"one": 1, "four": 2}, idsByName(t, s)); diff != "" {
		t.Errorf("services differ (-want +got):\n%s", diff)
	}
}

func isNil(err error) bool { return err == nil }

func isPanic(err error) bool {
	var crash *panicError
	return errors.As(err, &crash) && strings.Contains(string(crash.stack), "inserting")
}

func is(want error) func(error) bool {
	return func(err error) bool { return errors.Is(err, want) }
}

// TestGroupCommitsAtOnce: a reader sees all of a group or nothing of it.
func TestGroupCommitsAtOnce(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	release := holdWriter(t, s)
	first := queued(t, s, context.Background(), inserting("one", fine))
	var visible int
	second := queued(t, s, context.Background(), inserting("two", func() error {
		services, err := s.livingServices("a")
		visible = len(services)
		return err
	}))
	release()
	if err := errors.Join(<-first, <-second); err != nil {
		t.Fatal(err)
	}
	if visible != 0 {
		t.Errorf("services that a reader sees in the middle of a group = %d, want 0", visible)
	}
	if got := idsByName(t, s); len(got) != 2 {
		t.Errorf("services = %v, want two", got)
	}
}

// TestGroupThatFails: nothing of it was written, and nobody is refused for the sake of
// something that was not written.
func TestGroupThatFails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		last func(*tx) error
		want error
	}{
		{"the store cannot write", func(*tx) error { return fmt.Errorf("disk: %w", errStoreUnavailable) }, errStoreUnavailable},
		{"the transaction is lost", func(t *tx) error { return t.exec("ROLLBACK") }, nil},
		{"the commit fails", func(t *tx) error {
			return errors.Join(t.exec(`PRAGMA defer_foreign_keys = 1`), t.exec(`INSERT INTO revisions (service, created_at) VALUES (77, 0)`))
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, _ := testStore(t)
			release := holdWriter(t, s)
			results := map[string]<-chan error{
				"wrote":           queued(t, s, context.Background(), inserting("one", fine)),
				"refused":         queued(t, s, context.Background(), inserting("one", fine)),
				"panicked":        queued(t, s, context.Background(), inserting("two", func() error { panic("boom") })),
				"met the trouble": queued(t, s, context.Background(), tt.last),
			}
			release()
			for name, result := range results {
				err := <-result
				switch {
				case name == "panicked":
					if !isPanic(err) {
						t.Errorf("%s: write = %v, want the panic", name, err)
					}
				case err == nil || errors.Is(err, errTaken) || tt.want != nil && !errors.Is(err, tt.want):
					t.Errorf("%s: write = %v, want the group's error", name, err)
				}
			}
			mustWrite(t, s, inserting("after", fine))
			if diff := cmp.Diff(map[string]int64{"after": 1}, idsByName(t, s)); diff != "" {
				t.Errorf("services differ (-want +got):\n%s", diff)
			}
		})
	}
}

// TestFailedCommitIsToldApart: only after a failed COMMIT must the outcome be read back.
func TestFailedCommitIsToldApart(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	var failed *commitError
	err := s.write(context.Background(), func(t *tx) error {
		return errors.Join(t.exec(`PRAGMA defer_foreign_keys = 1`), t.exec(`INSERT INTO revisions (service, created_at) VALUES (77, 0)`))
	})
	if !errors.As(err, &failed) {
		t.Errorf("write = %v, want a commitError", err)
	}
	if err := s.write(context.Background(), func(*tx) error { return errRefused }); errors.As(err, &failed) {
		t.Errorf("write = %v, want no commitError", err)
	}
}

func TestFullQueue(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	release := holdWriter(t, s)
	var results []<-chan error
	for i := range maxQueued {
		results = append(results, queued(t, s, context.Background(), inserting(fmt.Sprint("s", i), fine)))
	}
	if err := s.write(context.Background(), inserting("one too many", fine)); !errors.Is(err, errStoreUnavailable) {
		t.Errorf("write to a full queue = %v, want %v", err, errStoreUnavailable)
	}
	release()
	for i, result := range results {
		if err := <-result; err != nil {
			t.Errorf("job %d = %v, want nil", i, err)
		}
	}
	if got := idsByName(t, s); len(got) != maxQueued {
		t.Errorf("%d services, want %d", len(got), maxQueued)
	}
	mustWrite(t, s, inserting("afterwards", fine))
}

// TestCloseFinishesWhatIsQueued: who was let in is told the truth.
func TestCloseFinishesWhatIsQueued(t *testing.T) {
	t.Parallel()
	s, path := testStore(t)
	release := holdWriter(t, s)
	first := queued(t, s, context.Background(), inserting("one", fine))
	second := queued(t, s, context.Background(), inserting("two", func() error { return errRefused }))
	closed := make(chan struct{})
	go func() {
		s.writer.close()
		close(closed)
	}()
	eventually(t, "the writer takes no more", func() bool {
		idle := &job{ctx: context.Background(), do: func(*tx) error { return nil }, result: make(chan error, 1)}
		return errors.Is(s.enqueue(idle), errStoreUnavailable)
	})
	release()
	<-closed
	if err := <-first; err != nil {
		t.Errorf("queued write = %v, want nil", err)
	}
	if err := <-second; !errors.Is(err, errRefused) {
		t.Errorf("queued write = %v, want %v", err, errRefused)
	}
	if got := idsByName(t, mustOpenStore(t, path)); len(got) != 1 {
		t.Errorf("services = %v, want one", got)
	}
}

// TestWriteWaitsForItsOutcome: a deadline that passes while the job runs changes
// nothing: nobody may say that nothing was written while it is being written.
func TestWriteWaitsForItsOutcome(t *testing.T) {
	t.Parallel()
	s, _ := testStore(t)
	ctx, cancel := context.WithCancel(context.Background())
	if err := s.write(ctx, inserting("one", func() error { cancel(); return nil })); err != nil {
		t.Errorf("write = %v, want nil", err)
	}
	if got := idsByName(t, s); len(got) != 1 {
		t.Errorf("services = %v, want one", got)
	}
}

// TestPatienceIsEachJobsOwn: while another process holds the lock a job waits for
// busyTime since it came, and not until its group's turn has come and gone.
func TestPatienceIsEachJobsOwn(t *testing.T) {
	t.Parallel()
	s, path := testStore(t)
	unlock := lockedBy("BEGIN IMMEDIATE")(&bench{t: t}, path)
	// Far more than one group: all of them are refused in the same step.
	var early []<-chan error
	for range maxQueued {
		early = append(early, queued(t, s, context.Background(), func(*tx) error { return nil }))
	}
	eventually(t, "half of their time has passed", func() bool { return s.waits.Load() >= lockSteps/2 })
	late := queued(t, s, context.Background(), func(*tx) error { return nil })
	for i, result := range early {
		if err := <-result; !errors.Is(err, errStoreUnavailable) {
			t.Fatalf("job %d = %v, want %v", i, err, errStoreUnavailable)
		}
	}
	if got := s.waits.Load(); got > lockSteps+1 {
		t.Errorf("the last early job was refused after %d steps, want at most %d", got, lockSteps+1)
	}
	select {
	case err := <-late:
		t.Errorf("the late job = %v, want that it still waits", err)
	default:
	}
	unlock()
	if err := <-late; err != nil {
		t.Errorf("the late job = %v, want nil: the lock ended in time", err)
	}
}
