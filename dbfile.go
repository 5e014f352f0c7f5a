// dbfile.go owns the database file: opening it, refusing what is not ours, its pragmas,
// schema version and integrity. It must not know what the tables mean.

package main

import (
	"context"
	"database/sql"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	// applicationID marks our files ("RVSR" in the SQLite header), so that a foreign
	// database is never written to.
	applicationID = 0x52565352
	// schemaVersion is the user_version of the files that this program writes.
	schemaVersion = 1
	// incrementalVacuum is the value of auto_vacuum by which the sweep can give pages back.
	incrementalVacuum = 2
	// busyTime is how long a write waits for another process's lock. Shorter than a
	// client's patience for one attempt (2 s), so that it hears the truth in time.
	busyTime = 1500 * time.Millisecond
	// inspections is how often a file that cannot be read is looked at, busyPause apart.
	inspections = 20
	// busyPause is between two attempts where SQLite itself does not wait.
	busyPause = 10 * time.Millisecond
	// readers is the size of the read pool: one for each core of a small machine.
	readers = 2
	// journalLimit bounds the file that the write-ahead log leaves behind, in bytes.
	journalLimit = 64 << 20
)

//go:embed schema.sql
var schema string

// store is one open database file.
type store struct {
	*writer
	writeDB *sql.DB
	readDB  *sql.DB
	reads   *statements
	moveDB  *sql.DB // the checkpointer's
	mover   *checkpointer
	tag     string // eight hex digits, part of every entity tag
}

// openStore opens the database file at path, or makes it; newTag draws the tag of a
// new one (eight hex digits). A file that is not ours, or newer than this program, is
// refused untouched.
func openStore(path string, newTag func() string) (*store, error) {
	syncDataOnly()
	s, err := openPools(path, newTag)
	if err != nil {
		return nil, fmt.Errorf("la base de datos %s: %w", path, err)
	}
	return s, nil
}

// openPools opens the three handles on the file: one to write, one to read, one for
// checkpoints. When it fails none is left open.
func openPools(path string, newTag func() string) (_ *store, err error) {
	if err := inspect(path); err != nil {
		return nil, err
	}
	var opened []*sql.DB
	defer func() {
		if err != nil {
			for _, db := range opened {
				err = errors.Join(err, db.Close())
			}
		}
	}()
	pool := func(connections int, params string) (*sql.DB, error) {
		db, err := sql.Open("sqlite", dsn(path, params))
		if err != nil {
			return nil, err
		}
		opened = append(opened, db)
		db.SetMaxOpenConns(connections)
		db.SetMaxIdleConns(connections)
		return db, nil
	}
	params := "_txlock=immediate&_journal_mode=wal&_pragma=wal_autocheckpoint(0)"
	if info, err := os.Stat(path); err != nil || info.Size() == 0 { // it can be set in a new file only
		params += "&_auto_vacuum=incremental"
	}
	writeDB, err := pool(1, params)
	if err != nil {
		return nil, err
	}
	tag, err := prepareWhenFree(writeDB, newTag)
	if err != nil {
		return nil, err
	}
	readDB, readErr := pool(readers, "mode=rw&_query_only=1")
	moveDB, moveErr := pool(1, "mode=rw")
	if err := errors.Join(readErr, moveErr); err != nil {
		return nil, err
	}
	if err := errors.Join(openAll(readDB, readers), openAll(moveDB, 1)); err != nil {
		return nil, err
	}
	w := newWriter(writeDB)
	return &store{
		writer: w, writeDB: writeDB,
		readDB: readDB, reads: newStatements(readDB),
		moveDB: moveDB, mover: newCheckpointer(moveDB, w), tag: tag,
	}, nil
}

// openAll opens the connections that a pool may have, with all their files: later the
// process may have no descriptor left for them.
func openAll(db *sql.DB, many int) error {
	ctx := context.Background()
	for range many {
		conn, err := db.Conn(ctx)
		if err != nil {
			return err
		}
		defer conn.Close() // back to the pool, when all are open
		if _, err := conn.ExecContext(ctx, `SELECT 1 FROM settings`); err != nil {
			return err
		}
	}
	return nil
}

// close finishes the queued writes and closes the file.
func (s *store) close() error {
	s.writer.close()
	s.mover.close()
	s.reads.close()
	return errors.Join(s.readDB.Close(), s.moveDB.Close(), s.writeDB.Close())
}

// dsn is the address of the file for the driver, with what every connection needs.
// The path is escaped: '?', '#' and '%' are legal in file names.
func dsn(path, params string) string {
	return fileURI(path) + "?" + params + fmt.Sprintf(
		"&_busy_timeout=%d&_synchronous=full&_foreign_keys=1&_dqs=0&_pragma=journal_size_limit(%d)",
		busyTime.Milliseconds(), journalLimit)
}

// fileURI is a file's name as SQLite reads one without a second meaning.
func fileURI(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// inspect looks at an existing file without changing it, nor what lies beside it:
// absent or empty is fine, a database that is not ours or is newer is not.
func inspect(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Mode().IsRegular() && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("no es un archivo normal")
	}
	// A file that another process is making at this moment may look torn, once.
	for patience := inspections; ; patience-- {
		err := inspectOnce(path)
		if err == nil || patience <= 1 || primaryCode(err) == 0 {
			return err
		}
		<-time.NewTimer(busyPause).C
	}
}

// inspectOnce reads the marks of an existing file.
func inspectOnce(path string) error {
	// What is in a log counts too. Where there is none, an immutable file is one beside
	// which SQLite makes none.
	access := "mode=ro&immutable=1"
	if target, err := filepath.EvalSymlinks(path); err == nil {
		if log, err := os.Stat(target + "-wal"); err == nil && log.Size() > 0 {
			access = "mode=ro"
		}
	}
	db, err := sql.Open("sqlite", dsn(path, access))
	if err != nil {
		return err
	}
	defer db.Close()
	marks, err := readMarks(db)
	if err != nil {
		return fmt.Errorf("no se puede leer como base de datos: %w", err)
	}
	return marks.refusal()
}

// fileMarks tell whose a database is and of which version.
type fileMarks struct {
	id, version int64
	tables      bool // whether it has any; not looked at in ours
}

// readMarks reads page 1 only, if the file is ours: so it does not matter that a
// process may be writing the others.
func readMarks(db *sql.DB) (m fileMarks, err error) {
	if err := db.QueryRow(`PRAGMA application_id`).Scan(&m.id); err != nil {
		return m, err
	}
	if err := db.QueryRow(`PRAGMA user_version`).Scan(&m.version); err != nil {
		return m, err
	}
	if m.id != applicationID {
		err = db.QueryRow(`SELECT EXISTS (SELECT 1 FROM sqlite_schema)`).Scan(&m.tables)
	}
	return m, err
}

// refusal is nil for a file of ours and for one that nobody has used.
func (m fileMarks) refusal() error {
	switch {
	case m.id != applicationID && (m.id != 0 || m.version != 0 || m.tables):
		return errors.New("es la base de datos de otro programa")
	case m.version > schemaVersion:
		return fmt.Errorf("tiene la versión %d del esquema, y este programa conoce hasta la %d", m.version, schemaVersion)
	}
	return nil
}

// prepareWhenFree insists for busyTime: a new file's change to WAL does not wait for the
// lock of another process that is making the same file, whatever busy_timeout says.
func prepareWhenFree(db *sql.DB, newTag func() string) (tag string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), busyTime)
	defer cancel()
	for {
		tag, err = prepareFile(db, newTag)
		if !isBusy(err) || ctx.Err() != nil {
			return tag, err
		}
		select {
		case <-ctx.Done():
		case <-time.NewTimer(busyPause).C:
		}
	}
}

// prepareFile makes the schema where there is none and returns the file's tag. A file
// that is ready is only read: no lock of another process is in the way.
func prepareFile(db *sql.DB, newTag func() string) (tag string, err error) {
	ctx := context.Background()
	tag, ready, err := readTag(ctx, db)
	if err != nil {
		return "", err
	}
	if ready {
		return tag, demandWritable(ctx, db)
	}
	t, err := db.BeginTx(ctx, nil)
	if err != nil {
		return "", fmt.Errorf("begin: %w", err)
	}
	defer t.Rollback()
	tag, ready, err = readTag(ctx, t) // another process may have been faster
	if ready || err != nil {
		return tag, err
	}
	_, err = t.ExecContext(ctx, schema+fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, schemaVersion))
	if err != nil {
		return "", fmt.Errorf("make schema: %w", err)
	}
	_, err = t.ExecContext(ctx, `INSERT INTO settings (name, value) VALUES ('tag', ?), ('maintenance', '0')`, newTag())
	if err != nil {
		return "", fmt.Errorf("make settings: %w", err)
	}
	if tag, _, err = readTag(ctx, t); err != nil {
		return "", err
	}
	return tag, t.Commit()
}

// demandWritable refuses a file that this process can only read. It would not get better
// in a process that is running: all its connections share one view of the log's index.
// That another process holds the lock does not matter, and is not waited for.
func demandWritable(ctx context.Context, db *sql.DB) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	setPatience := func(d time.Duration) error {
		_, err := conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA busy_timeout = %d`, d.Milliseconds()))
		return err
	}
	if err := setPatience(0); err != nil {
		return err
	}
	// BEGIN IMMEDIATE would not do: in a file that is only read it succeeds.
	_, err = conn.ExecContext(ctx, `UPDATE settings SET value = value WHERE name = ''`)
	if isBusy(err) {
		err = nil
	}
	return errors.Join(err, setPatience(busyTime))
}

// rowQueryer is a pool or a transaction.
type rowQueryer interface {
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// readTag refuses a file that is not for us, and reads the tag of one that is ready.
func readTag(ctx context.Context, q rowQueryer) (tag string, ready bool, err error) {
	var marks fileMarks
	var vacuum int64
	err = q.QueryRowContext(ctx, `SELECT application_id, user_version, EXISTS (SELECT 1 FROM sqlite_schema), auto_vacuum
		FROM pragma_application_id, pragma_user_version, pragma_auto_vacuum`).Scan(&marks.id, &marks.version, &marks.tables, &vacuum)
	if err != nil {
		return "", false, fmt.Errorf("read versions: %w", err)
	}
	if err := marks.refusal(); err != nil || marks.version == 0 {
		return "", false, err
	}
	if vacuum != incrementalVacuum { // else the file would never shrink, and nobody would know
		return "", false, errors.New("no se creó con auto_vacuum = INCREMENTAL")
	}
	if err := q.QueryRowContext(ctx, `SELECT value FROM settings WHERE name = 'tag'`).Scan(&tag); err != nil {
		return "", false, fmt.Errorf("read tag: %w", err)
	}
	return tag, true, nil
}

// checkIntegrity reads the whole file and tells whether SQLite finds it sound. A file
// that does not exist yet, or is empty, is.
func checkIntegrity(path string) error {
	if err := inspect(path); err != nil { // a foreign file is not a damaged one
		return fmt.Errorf("la base de datos %s: %w", path, err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return nil
	}
	db, err := sql.Open("sqlite", dsn(path, "mode=ro"))
	if err != nil {
		return fmt.Errorf("la base de datos %s: %w", path, err)
	}
	defer db.Close()
	var verdict string
	err = storeError("check integrity", db.QueryRow(`PRAGMA quick_check(1)`).Scan(&verdict))
	if errors.Is(err, errStoreUnavailable) { // a full disk or a lock says nothing about the file
		return fmt.Errorf("la base de datos %s: %w", path, err)
	}
	if err == nil && verdict != "ok" {
		err = errors.New(strings.Join(strings.Fields(verdict), " ")) // it comes in several lines
	}
	if err != nil {
		return fmt.Errorf("la base de datos %s está dañada: %w", path, err)
	}
	return nil
}
