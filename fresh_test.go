// fresh_test.go tests a value that is read again before it is too old.

package main

import (
	"errors"
	"sync"
	"testing"
	"time"
)

// source counts its readings, which are its values.
type source struct {
	mu    sync.Mutex
	reads int
	err   error
}

func (s *source) load() (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads++
	return s.reads, s.err
}

func TestFreshAge(t *testing.T) {
	t.Parallel()
	clock, src := newFakeClock(), &source{}
	f := newFresh(time.Second, clock.Now, src.load)
	for _, tt := range []struct {
		name    string
		advance time.Duration
		want    int
	}{
		{"first", 0, 1},
		{"at once", 0, 1},
		{"young", 999 * time.Millisecond, 1},
		{"of age", time.Millisecond, 2},
		{"young again", 500 * time.Millisecond, 2},
		{"the clock went back", -time.Second, 3},
		{"much later", time.Hour, 4},
	} {
		clock.advance(tt.advance)
		if got, err := f.get(); got != tt.want || err != nil {
			t.Errorf("%s: get() = %d, %v, want %d", tt.name, got, err, tt.want)
		}
	}
	f.forget()
	if got, _ := f.get(); got != 5 {
		t.Errorf("get() after forget() = %d, want 5", got)
	}
}

// TestFreshError: what cannot be read is an error and not the old value, and is tried
// again the next time.
func TestFreshError(t *testing.T) {
	t.Parallel()
	clock, src := newFakeClock(), &source{}
	f := newFresh(time.Second, clock.Now, src.load)
	f.get()
	clock.advance(time.Second)
	src.err = errors.New("disk on fire")
	if got, err := f.get(); !errors.Is(err, src.err) || got != 0 {
		t.Errorf("get() of an unreadable value = %d, %v, want 0, %v", got, err, src.err)
	}
	src.err = nil
	if got, err := f.get(); got != 3 || err != nil {
		t.Errorf("get() afterwards = %d, %v, want 3", got, err)
	}
}

// TestFreshAtOnce: many who ask at once share one reading.
func TestFreshAtOnce(t *testing.T) {
	t.Parallel()
	clock, src := newFakeClock(), &source{}
	f := newFresh(time.Second, clock.Now, src.load)
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			if got, err := f.get(); got != 1 || err != nil {
				t.Errorf("get() = %d, %v, want 1", got, err)
			}
		})
	}
	wg.Wait()
}

// TestForgetDuringAReading: a reading that began before forget may hold the old value,
// so it must not be kept.
func TestForgetDuringAReading(t *testing.T) {
	t.Parallel()
	reading, release := make(chan struct{}), make(chan struct{})
	value := "old"
	f := newFresh(time.Hour, time.Now, func() (string, error) {
		got := value
		if got == "old" {
			close(reading)
			<-release
		}
		return got, nil
	})
	first := make(chan struct{})
	go func() { defer close(first); f.get() }()
	<-reading
	value = "new"
	forgotten := make(chan struct{})
	go func() { defer close(forgotten); f.forget() }()
	close(release)
	<-forgotten
	<-first
	if got, _ := f.get(); got != "new" {
		t.Errorf("get() after forget() = %q, want new", got)
	}
}
