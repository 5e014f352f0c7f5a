// fresh.go owns a value that another process may change and that is asked for with
// every request: it is read again when it is older than it may be. It must not know
// what the value is or where it is read.

package main

import (
	"sync"
	"sync/atomic"
	"time"
)

// fresh holds a value that is never older than maxAge when it is handed out.
type fresh[T any] struct {
	maxAge time.Duration
	now    func() time.Time
	load   func() (T, error)

	reading sync.Mutex
	current atomic.Pointer[dated[T]]
}

// dated is a value with the moment at which its reading began.
type dated[T any] struct {
	value T
	read  time.Time
}

// newFresh reads nothing yet: get does. load may be slow.
func newFresh[T any](maxAge time.Duration, now func() time.Time, load func() (T, error)) *fresh[T] {
	return &fresh[T]{maxAge: maxAge, now: now, load: load}
}

// get returns the value, reading it again when it is too old. A value that cannot be
// read is an error, not an old value: a revoked credential must not live on.
func (f *fresh[T]) get() (T, error) {
	if d := f.current.Load(); f.young(d) {
		return d.value, nil
	}
	f.reading.Lock()
	defer f.reading.Unlock()
	if d := f.current.Load(); f.young(d) {
		return d.value, nil
	}
	read := f.now()
	value, err := f.load()
	if err != nil {
		var none T
		return none, err
	}
	f.current.Store(&dated[T]{value, read})
	return value, nil
}

// forget makes the next get read again.
func (f *fresh[T]) forget() {
	f.reading.Lock() // a reading that is under way may hold the old value
	defer f.reading.Unlock()
	f.current.Store(nil)
}

// young tells whether d may still be handed out. A clock that went back makes it old.
func (f *fresh[T]) young(d *dated[T]) bool {
	if d == nil {
		return false
	}
	age := f.now().Sub(d.read)
	return age >= 0 && age < f.maxAge
}
