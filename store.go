// store.go owns every SQL statement of the product, and the rows and structs that they
// become. It must not know HTTP, JSON representations or problem types.

package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// service is one that a team wants watched.
type service struct {
	id      int64
	team    string
	name    string
	url     string
	limitMS int64
	version int64
	retired bool
}

// revision is one check of a service, asked for and perhaps finished.
type revision struct {
	id       int64
	service  int64
	team     string
	finished bool
	result   checkResult // only when finished
}

// checkResult is what a revision found out. code and ms are those of the last attempt,
// both nil when it got no answer; detail is for a person.
type checkResult struct {
	state    string
	code, ms *int64
	detail   string
}

// serviceReport summarises the revisions of one service.
type serviceReport struct {
	revisions int64
	lastState sql.NullString // of the newest finished one
}

// success is what an operation tells its client: all of it that a replay repeats. The
// body is JSON.
type success struct {
	status   int // 2xx
	location string
	etag     string // "" for none
	body     []byte
}

// recordedAnswer is the answer of a finished keyed request, with what made it.
type recordedAnswer struct {
	fingerprint  []byte
	method, path string
	answer       success
	firstUsed    time.Time
	expires      time.Time
}

// role is what a credential may do; each role may do what those below it may.
type role int

const (
	roleAnyone role = iota // no credential needed
	roleReader
	roleWriter
	roleAdmin
)

var roleNames = [...]string{roleAnyone: "anyone", roleReader: "reader", roleWriter: "writer", roleAdmin: "admin"}

func (r role) String() string { return roleNames[r] }

// parseRole reads the name of a role that a credential can have.
func parseRole(name string) (role, error) {
	for r := roleReader; r <= roleAdmin; r++ {
		if roleNames[r] == name {
			return r, nil
		}
	}
	return roleAnyone, fmt.Errorf("role %q is none of reader, writer, admin", name)
}

// credential is who may ask: for one team, or for all with "*".
type credential struct {
	id      int64
	name    string
	team    string
	role    role
	hash    [32]byte // SHA-256 of the token
	created time.Time
	revoked bool
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
func (s *store) pendingRevisions() ([]int64, error) {
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
func (s *store) revisionTarget(id int64) (url string, limitMS int64, err error) {
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

// keyRow finds what is recorded under a credential's key, its time passed or not. Most
// keys are new, so whether there is a row is asked first: the index alone tells, and the
// driver prepares one column and not nine.
func (s *statements) keyRow(credential int64, key string) (recordedAnswer, error) {
	var rec recordedAnswer
	var there int64
	if err := s.queryRow(`SELECT 1 FROM keys WHERE credential = ? AND key = ?`, []any{credential, key}, &there); err != nil {
		return rec, err
	}
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

// errKeyTaken says that there is a row under a key already, its time passed or not.
var errKeyTaken = errors.New("key taken")

// recordKey keeps an answer under the unique (credential, key), or fails with errKeyTaken.
func (t *tx) recordKey(credential int64, key string, rec recordedAnswer) error {
	n, err := t.changed(`INSERT INTO keys (credential, key, fingerprint, method, path, status, location, etag, body, first_used_at, expires_at)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		credential, key, rec.fingerprint, rec.method, rec.path, rec.answer.status, rec.answer.location, rec.answer.etag,
		rec.answer.body, rec.firstUsed.UnixMilli(), rec.expires.UnixMilli())
	if err == nil && n == 0 {
		return errKeyTaken
	}
	return err
}

// forgetKeys deletes every recorded key: a deliberate defect.
func (t *tx) forgetKeys() error { return t.exec(`DELETE FROM keys`) }

// sweepKeys deletes at most limit keys whose time has passed and tells how many.
func (t *tx) sweepKeys(now time.Time, limit int64) (int64, error) {
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
