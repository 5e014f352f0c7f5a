// store.go owns the database file: opening, pragmas, schema version, the read pool,
// every SQL statement, rows and the structs they become. It must not know HTTP, JSON
// representations or problem types.

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
	"sync"
	"time"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"
)

const (
	// applicationID marks our files ("RVSR" in the SQLite header), so that a foreign
	// database is never written to.
	applicationID = 0x52565352
	// schemaVersion is the user_version of the files that this program writes.
	schemaVersion = 1
	// busyTime is how long a write waits for another process's lock. Shorter than a
	// client's patience for one attempt (2 s), so that it hears the truth in time.
	busyTime = 1500 * time.Millisecond
	// busyPause is between two attempts where SQLite itself does not wait.
	busyPause = 10 * time.Millisecond
	// readers is the size of the read pool: one for each core of a small machine.
	readers = 2
	// journalLimit bounds the file that the write-ahead log leaves behind, in bytes.
	journalLimit = 64 << 20
)

//go:embed schema.sql
var schema string

var (
	// errStoreUnavailable: the store cannot work now (full disk, lock, I/O error) and
	// nothing was written. It may work again later.
	errStoreUnavailable = errors.New("store unavailable")
	errNotFound         = errors.New("not found")
)

type service struct {
	id      int64
	team    string
	name    string
	url     string
	limitMS int64
	version int64
	retired bool
}

type revision struct {
	id       int64
	service  int64
	team     string
	finished bool
	result   checkResult // only when finished
}

// serviceReport summarises the revisions of one service.
type serviceReport struct {
	revisions int64
	lastState sql.NullString // of the newest finished one
}

// recordedAnswer is the answer of a finished keyed request, with what made it.
type recordedAnswer struct {
	fingerprint  []byte
	method, path string
	answer       success
	firstUsed    time.Time
	expires      time.Time
}

type credential struct {
	id      int64
	name    string
	team    string
	role    role
	hash    [32]byte // SHA-256 of the token
	created time.Time
	revoked bool
}

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
	if err := inspect(path); err != nil {
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	writeDB, err := sql.Open("sqlite", dsn(path, "_txlock=immediate&_auto_vacuum=incremental&_journal_mode=wal&_pragma=wal_autocheckpoint(0)"))
	if err != nil {
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	writeDB.SetMaxOpenConns(1)
	tag, err := prepareWhenFree(writeDB, newTag)
	if err != nil {
		writeDB.Close()
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	readDB, err := sql.Open("sqlite", dsn(path, "mode=rw&_query_only=1"))
	if err != nil {
		writeDB.Close()
		return nil, fmt.Errorf("database %s: %w", path, err)
	}
	readDB.SetMaxOpenConns(readers)
	readDB.SetMaxIdleConns(readers)
	moveDB, err := sql.Open("sqlite", dsn(path, "mode=rw"))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("database %s: %w", path, err), readDB.Close(), writeDB.Close())
	}
	moveDB.SetMaxOpenConns(1)
	w := newWriter(writeDB)
	return &store{
		writer: w, writeDB: writeDB,
		readDB: readDB, reads: newStatements(readDB),
		moveDB: moveDB, mover: newCheckpointer(moveDB, w), tag: tag,
	}, nil
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
	if abs, err := filepath.Abs(path); err == nil {
		path = abs
	}
	u := url.URL{Scheme: "file", Path: path}
	return u.String() + "?" + params + fmt.Sprintf(
		"&_busy_timeout=%d&_synchronous=full&_foreign_keys=1&_dqs=0&_pragma=journal_size_limit(%d)",
		busyTime.Milliseconds(), journalLimit)
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
		return errors.New("not a regular file")
	}
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
		return fmt.Errorf("cannot be read as a database: %w", err)
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
		return errors.New("is the database of another program")
	case m.version > schemaVersion:
		return fmt.Errorf("has schema version %d, newer than the %d that this program knows", m.version, schemaVersion)
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
		<-time.After(busyPause)
	}
}

// prepareFile makes the schema where there is none and returns the file's tag.
func prepareFile(db *sql.DB, newTag func() string) (tag string, err error) {
	ctx := context.Background()
	t, err := db.BeginTx(ctx, nil)
	if err != nil {
		return "", fmt.Errorf("begin: %w", err)
	}
	defer t.Rollback()
	var marks fileMarks
	var vacuum int64
	err = t.QueryRowContext(ctx, `SELECT application_id, user_version, EXISTS (SELECT 1 FROM sqlite_schema), auto_vacuum
		FROM pragma_application_id, pragma_user_version, pragma_auto_vacuum`).Scan(&marks.id, &marks.version, &marks.tables, &vacuum)
	if err != nil {
		return "", fmt.Errorf("read versions: %w", err)
	}
	if err := marks.refusal(); err != nil { // another process was faster than our inspection
		return "", err
	}
	if marks.version == 0 {
		_, err := t.ExecContext(ctx, schema+fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, schemaVersion))
		if err != nil {
			return "", fmt.Errorf("make schema: %w", err)
		}
		_, err = t.ExecContext(ctx, `INSERT INTO settings (name, value) VALUES ('tag', ?), ('maintenance', '0')`, newTag())
		if err != nil {
			return "", fmt.Errorf("make settings: %w", err)
		}
	}
	if vacuum != 2 { // else the file would never shrink, and nobody would know
		return "", errors.New("was not made with auto_vacuum = INCREMENTAL")
	}
	if err := t.QueryRowContext(ctx, `SELECT value FROM settings WHERE name = 'tag'`).Scan(&tag); err != nil {
		return "", fmt.Errorf("read tag: %w", err)
	}
	return tag, t.Commit()
}

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

const serviceColumns = `id, team, name, url, limit_ms, version, retired_at IS NOT NULL`

func (svc *service) fields() []any {
	return []any{&svc.id, &svc.team, &svc.name, &svc.url, &svc.limitMS, &svc.version, &svc.retired}
}

// serviceByID finds a service, retired ones included.
func (s *statements) serviceByID(id int64) (service, error) {
	var svc service
	err := s.queryRow(`SELECT `+serviceColumns+` FROM services WHERE id = ?`, []any{id}, svc.fields()...)
	return svc, err
}

// serviceByID finds a service, retired ones included.
func (s *store) serviceByID(id int64) (service, error) { return s.reads.serviceByID(id) }

// serviceByID finds a service as the transaction sees it.
func (t *tx) serviceByID(id int64) (service, error) { return t.stmts.serviceByID(id) }

// livingServices lists the services of one team, or of all with "*", by ascending id.
func (s *store) livingServices(team string) ([]service, error) {
	services := []service{}
	err := s.reads.query(`SELECT `+serviceColumns+` FROM services
		WHERE retired_at IS NULL AND (team = ?1 OR ?1 = '*') ORDER BY id`, []any{team},
		func(rows *sql.Rows) error {
			var svc service
			err := rows.Scan(svc.fields()...)
			services = append(services, svc)
			return err
		})
	return services, err
}

// livingName finds the living service that holds a name in a team.
func (t *tx) livingName(team, name string) (id int64, err error) {
	err = t.stmts.queryRow(`SELECT id FROM services WHERE team = ? AND name = ? AND retired_at IS NULL`, []any{team, name}, &id)
	return id, err
}

// insertService registers a service under a free name. taken is true, and nothing
// was written, when a living service of the team holds the name.
func (t *tx) insertService(team, name, url string, limitMS int64, now time.Time) (svc service, taken bool, err error) {
	svc = service{team: team, name: name, url: url, limitMS: limitMS, version: 1}
	result, err := t.execResult(`INSERT INTO services (team, name, url, limit_ms, version, created_at)
		VALUES (?, ?, ?, ?, 1, ?) ON CONFLICT DO NOTHING`, team, name, url, limitMS, now.UnixMilli())
	if err != nil {
		return service{}, false, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return service{}, true, err
	}
	svc.id, err = result.LastInsertId()
	return svc, false, err
}

// updateService replaces what a client may set and counts the version up. taken is
// true, and nothing was written, when another living service of the team holds the
// name. The caller has looked the living service up in this transaction.
func (t *tx) updateService(id int64, name, url string, limitMS int64) (svc service, taken bool, err error) {
	n, err := t.changed(`UPDATE OR IGNORE services SET name = ?, url = ?, limit_ms = ?, version = version + 1
		WHERE id = ? AND retired_at IS NULL`, name, url, limitMS, id)
	if err != nil || n == 0 {
		return service{}, err == nil, err
	}
	svc, err = t.serviceByID(id)
	return svc, false, err
}

// retireService takes a living service out of the list and frees its name.
func (t *tx) retireService(id int64, now time.Time) error {
	return t.exec(`UPDATE services SET retired_at = ?, version = version + 1 WHERE id = ? AND retired_at IS NULL`, now.UnixMilli(), id)
}

// insertRevision accepts a check of a service.
func (t *tx) insertRevision(service int64, now time.Time) (id int64, err error) {
	result, err := t.execResult(`INSERT INTO revisions (service, created_at) VALUES (?, ?)`, service, now.UnixMilli())
	if err != nil {
		return 0, err
	}
	return result.LastInsertId()
}

// revisionByID finds a revision with the team of its service.
func (s *store) revisionByID(id int64) (revision, error) {
	var rev revision
	var state, detail sql.NullString
	err := s.reads.queryRow(`SELECT r.id, r.service, s.team, r.finished_at IS NOT NULL, r.state, r.code, r.ms, r.detail
		FROM revisions AS r JOIN services AS s ON s.id = r.service WHERE r.id = ?`, []any{id},
		&rev.id, &rev.service, &rev.team, &rev.finished, &state, &rev.result.code, &rev.result.ms, &detail)
	rev.result.state, rev.result.detail = state.String, detail.String
	return rev, err
}

// reportOf counts the revisions of a service and finds the newest finished one's state.
func (s *store) reportOf(service int64) (serviceReport, error) {
	var rep serviceReport
	err := s.reads.queryRow(`SELECT (SELECT COUNT(*) FROM revisions WHERE service = ?1),
		(SELECT state FROM revisions WHERE service = ?1 AND finished_at IS NOT NULL ORDER BY id DESC LIMIT 1)`,
		[]any{service}, &rep.revisions, &rep.lastState)
	return rep, err
}

// pendingRevisions lists the revisions that still wait for a result, oldest first.
func (s *store) pendingRevisions(ctx context.Context) ([]int64, error) {
	var ids []int64
	err := s.reads.query(`SELECT id FROM revisions WHERE finished_at IS NULL ORDER BY id`, nil, func(rows *sql.Rows) error {
		var id int64
		err := rows.Scan(&id)
		ids = append(ids, id)
		return err
	})
	return ids, err
}

// revisionTarget tells what a revision has to check: its service's URL and limit as
// they are now.
func (s *store) revisionTarget(ctx context.Context, id int64) (url string, limitMS int64, err error) {
	err = s.reads.queryRow(`SELECT s.url, s.limit_ms FROM revisions AS r JOIN services AS s ON s.id = r.service
		WHERE r.id = ?`, []any{id}, &url, &limitMS)
	return url, limitMS, err
}

// finishRevision writes a result, unless another process wrote one before.
func (s *store) finishRevision(ctx context.Context, id int64, result checkResult, now time.Time) error {
	return s.write(ctx, func(t *tx) error {
		return t.exec(`UPDATE revisions SET finished_at = ?, state = ?, code = ?, ms = ?, detail = ?
			WHERE id = ? AND finished_at IS NULL`,
			now.UnixMilli(), result.state, result.code, result.ms, result.detail, id)
	})
}

// lives tells whether the key still counts at a moment: to the millisecond, as it is
// kept.
func (rec recordedAnswer) lives(now time.Time) bool {
	return now.UnixMilli() < rec.expires.UnixMilli()
}

// keyRow finds what is recorded under a credential's key, its time passed or not.
func (s *statements) keyRow(credential int64, key string) (recordedAnswer, error) {
	var rec recordedAnswer
	var firstUsed, expires int64
	err := s.queryRow(`SELECT fingerprint, method, path, status, location, etag, body, first_used_at, expires_at
		FROM keys WHERE credential = ? AND key = ?`, []any{credential, key},
		&rec.fingerprint, &rec.method, &rec.path, &rec.answer.status, &rec.answer.location, &rec.answer.etag, &rec.answer.body,
		&firstUsed, &expires)
	rec.firstUsed, rec.expires = time.UnixMilli(firstUsed), time.UnixMilli(expires)
	return rec, err
}

// recordedKey finds the answer recorded under a credential's key, if it lives at now.
func (s *store) recordedKey(credential int64, key string, now time.Time) (recordedAnswer, error) {
	rec, err := s.reads.keyRow(credential, key)
	if err == nil && !rec.lives(now) {
		return recordedAnswer{}, errNotFound
	}
	return rec, err
}

// recordedKey finds the same as the transaction sees it. A row whose time has passed is
// deleted: the key is free.
func (t *tx) recordedKey(credential int64, key string, now time.Time) (recordedAnswer, error) {
	rec, err := t.stmts.keyRow(credential, key)
	if err != nil || rec.lives(now) {
		return rec, err
	}
	if err := t.exec(`DELETE FROM keys WHERE credential = ? AND key = ?`, credential, key); err != nil {
		return recordedAnswer{}, err
	}
	return recordedAnswer{}, errNotFound
}

// recordKey keeps an answer under the unique (credential, key).
func (t *tx) recordKey(credential int64, key string, rec recordedAnswer) error {
	return t.exec(`INSERT INTO keys (credential, key, fingerprint, method, path, status, location, etag, body, first_used_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		credential, key, rec.fingerprint, rec.method, rec.path, rec.answer.status, rec.answer.location, rec.answer.etag,
		rec.answer.body, rec.firstUsed.UnixMilli(), rec.expires.UnixMilli())
}

// forgetKeys deletes every recorded key: a deliberate defect.
func (t *tx) forgetKeys() error { return t.exec(`DELETE FROM keys`) }

// sweepKeys deletes at most limit keys whose time has passed and tells how many.
func (t *tx) sweepKeys(now time.Time, limit int) (int64, error) {
	return t.changed(`DELETE FROM keys WHERE id IN
		(SELECT id FROM keys WHERE expires_at <= ? ORDER BY expires_at LIMIT ?)`, now.UnixMilli(), limit)
}

// releasePages gives at most limit free pages back to the file system and tells how
// many are left.
func (t *tx) releasePages(limit int) (left int64, err error) {
	// The pragma frees one page a step, so all its rows must be read.
	err = t.stmts.query(fmt.Sprintf(`PRAGMA incremental_vacuum(%d)`, limit), nil, func(*sql.Rows) error { return nil })
	if err != nil {
		return 0, err
	}
	err = t.stmts.queryRow(`SELECT freelist_count FROM pragma_freelist_count`, nil, &left)
	return left, err
}

// checkpoint moves as much of the write-ahead log into the database file as it can
// without waiting for anybody. It tells how many pages the log holds and how many of
// them are still to be moved.
func (s *statements) checkpoint() (pages, left int64, err error) {
	var busy, moved int64
	err = s.queryRow(`PRAGMA wal_checkpoint(PASSIVE)`, nil, &busy, &pages, &moved)
	return pages, pages - moved, err
}

// maintenance tells whether the API is closed.
func (s *store) maintenance() (bool, error) {
	var on bool
	err := s.reads.queryRow(`SELECT value = '1' FROM settings WHERE name = 'maintenance'`, nil, &on)
	return on, err
}

// setMaintenance closes or opens the API.
func (t *tx) setMaintenance(on bool) error {
	return t.exec(`UPDATE settings SET value = IIF(?, '1', '0') WHERE name = 'maintenance'`, on)
}

// credentials lists all credentials, revoked ones included, by id.
func (s *store) credentials() ([]credential, error) {
	var all []credential
	err := s.reads.query(`SELECT id, name, team, role, token_hash, created_at, revoked_at IS NOT NULL FROM credentials ORDER BY id`, nil,
		func(rows *sql.Rows) error {
			var c credential
			var roleName string
			var hash []byte
			var created int64
			if err := rows.Scan(&c.id, &c.name, &c.team, &roleName, &hash, &created, &c.revoked); err != nil {
				return err
			}
			var err error
			c.role, err = parseRole(roleName)
			copy(c.hash[:], hash)
			c.created = time.UnixMilli(created)
			all = append(all, c)
			return err
		})
	return all, err
}

// insertCredential keeps a new credential. taken is true, and nothing was written,
// when the name was used before.
func (t *tx) insertCredential(c credential) (taken bool, err error) {
	n, err := t.changed(`INSERT INTO credentials (name, team, role, token_hash, created_at)
		VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, c.name, c.team, c.role.String(), c.hash[:], c.created.UnixMilli())
	return n == 0, err
}

// revokeCredential ends a credential. It reports false when no good one has the name.
func (t *tx) revokeCredential(name string, now time.Time) (bool, error) {
	n, err := t.changed(`UPDATE credentials SET revoked_at = ? WHERE name = ? AND revoked_at IS NULL`, now.UnixMilli(), name)
	return n > 0, err
}

// hasServices tells whether any service was ever registered.
func (t *tx) hasServices() (bool, error) {
	var used bool
	err := t.stmts.queryRow(`SELECT EXISTS (SELECT 1 FROM services)`, nil, &used)
	return used, err
}
