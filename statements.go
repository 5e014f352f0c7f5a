// statements.go owns running SQL: each statement prepared once and kept, and the
// driver's errors turned into ours. It must not hold a statement of its own, nor know
// what one is for.

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

var (
	// errStoreUnavailable: the store cannot work now (full disk, lock, I/O error) and
	// nothing was written. It may work again later.
	errStoreUnavailable = errors.New("store unavailable")
	errNotFound         = errors.New("not found")
)

// preparer is what statements can be prepared on: a pool or one connection.
type preparer interface {
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// statements prepares each statement once and keeps it. They run on contexts without
// cancellation: a cancellable one costs the driver a goroutine each.
type statements struct {
	on preparer

	mu     sync.Mutex
	byText map[string]*sql.Stmt
}

func newStatements(on preparer) *statements {
	return &statements{on: on, byText: map[string]*sql.Stmt{}}
}

func (s *statements) get(query string) (*sql.Stmt, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stmt, ok := s.byText[query]; ok {
		return stmt, nil
	}
	stmt, err := s.on.PrepareContext(context.Background(), query)
	if err != nil {
		return nil, storeError("prepare", err)
	}
	s.byText[query] = stmt
	return stmt, nil
}

// close releases the statements: those prepared on a connection outlive its pool.
func (s *statements) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, stmt := range s.byText {
		stmt.Close()
	}
	clear(s.byText)
}

// queryRow runs a query for at most one row. errNotFound when there is none.
func (s *statements) queryRow(query string, args []any, dest ...any) error {
	stmt, err := s.get(query)
	if err != nil {
		return err
	}
	return storeError("query", stmt.QueryRowContext(context.Background(), args...).Scan(dest...))
}

// query runs scan once for each row.
func (s *statements) query(query string, args []any, scan func(*sql.Rows) error) error {
	stmt, err := s.get(query)
	if err != nil {
		return err
	}
	rows, err := stmt.QueryContext(context.Background(), args...)
	if err != nil {
		return storeError("query", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return storeError("scan", err)
		}
	}
	return storeError("query", rows.Err())
}

// exec runs a statement of the transaction that returns no rows.
func (t *tx) exec(query string, args ...any) error {
	_, err := t.execResult(query, args...)
	return err
}

func (t *tx) execResult(query string, args ...any) (sql.Result, error) {
	stmt, err := t.stmts.get(query)
	if err != nil {
		return nil, err
	}
	result, err := stmt.ExecContext(context.Background(), args...)
	return result, storeError("write", err)
}

// changed runs a statement and tells how many rows it touched.
func (t *tx) changed(query string, args ...any) (int64, error) {
	result, err := t.execResult(query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// syncDataOnly makes commits use fdatasync(2): as durable as fsync(2), without waiting for
// the file's times to be written. Where there is none nothing changes.
func syncDataOnly() { sqlite.Fdatasync(true) }

// storeError wraps what the driver says: no row is errNotFound; what comes from the
// disk or a lock is errStoreUnavailable.
func storeError(doing string, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, sql.ErrNoRows) {
		return errNotFound
	}
	switch primaryCode(err) {
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY,
		sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_PROTOCOL:
		return fmt.Errorf("%s: %w: %w", doing, errStoreUnavailable, err)
	}
	return fmt.Errorf("%s: %w", doing, err)
}

// isBusy tells whether another connection's lock was in the way.
func isBusy(err error) bool {
	return primaryCode(err) == sqlite3.SQLITE_BUSY
}

// isIO tells whether the disk failed in a way that does not tell how far it got.
func isIO(err error) bool {
	return primaryCode(err) == sqlite3.SQLITE_IOERR
}

// primaryCode is SQLite's result code without its extension, 0 when err is not from it.
func primaryCode(err error) int {
	var driverErr *sqlite.Error
	if errors.As(err, &driverErr) {
		return driverErr.Code() & 0xff
	}
	return 0
}
