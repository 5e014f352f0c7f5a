-- The database of revisor, version 1. Times are milliseconds of Unix time (UTC).

-- What is true of the whole database, one row each.
CREATE TABLE settings (
  name  TEXT PRIMARY KEY,   -- 'tag': eight hex digits drawn when the file was made, part of every entity tag
                            -- 'maintenance': '1' while the API is closed, else '0'
  value TEXT NOT NULL
) STRICT;

-- Who may ask. Rows stay when revoked, so that neither id nor name is used again.
CREATE TABLE credentials (
  id         INTEGER PRIMARY KEY AUTOINCREMENT, -- scope of its idempotency keys
  name       TEXT    NOT NULL UNIQUE,
  team       TEXT    NOT NULL,                  -- '*' if and only if the role is admin
  role       TEXT    NOT NULL CHECK (role IN ('reader', 'writer', 'admin')),
  token_hash BLOB    NOT NULL UNIQUE,           -- SHA-256 of the token; the token itself is nowhere
  created_at INTEGER NOT NULL,
  revoked_at INTEGER,                           -- NULL while good
  CHECK ((team = '*') = (role = 'admin'))
) STRICT;

-- What is watched. Rows stay when retired: their revisions remain readable, and as none is
-- ever deleted no id is used twice. The same holds of revisions.
CREATE TABLE services (
  id         INTEGER PRIMARY KEY,
  team       TEXT    NOT NULL,
  name       TEXT    NOT NULL,
  url        TEXT    NOT NULL,    -- to the byte as the client wrote it
  limit_ms   INTEGER NOT NULL,    -- how long a check waits for the response headers
  version    INTEGER NOT NULL,    -- 1, then one more with every write; part of the entity tag
  created_at INTEGER NOT NULL,
  retired_at INTEGER              -- NULL while living
) STRICT;

-- A name is unique among the living services of one team.
CREATE UNIQUE INDEX living_names ON services (team, name) WHERE retired_at IS NULL;

-- Checks that were asked for.
CREATE TABLE revisions (
  id          INTEGER PRIMARY KEY,
  service     INTEGER NOT NULL REFERENCES services (id),
  created_at  INTEGER NOT NULL,
  finished_at INTEGER,            -- NULL while pending
  state       TEXT,               -- ARRIBA, LENTO or CAIDO once finished
  code        INTEGER,            -- HTTP status of the last attempt; NULL when none came
  ms          INTEGER,            -- duration of the last attempt; NULL likewise
  detail      TEXT
) STRICT;

CREATE INDEX revisions_of_service ON revisions (service, id);
CREATE INDEX pending_revisions ON revisions (id) WHERE finished_at IS NULL;

-- Recorded answers of keyed requests. A row is written in the transaction that made
-- the effect; there is no row for work that is under way.
CREATE TABLE keys (
  id            INTEGER PRIMARY KEY,
  credential    INTEGER NOT NULL,  -- negative for the demo's practice credentials, which are not stored
  key           TEXT    NOT NULL,  -- unescaped, 1 to 255 visible characters or spaces
  fingerprint   BLOB    NOT NULL,  -- a version byte, then SHA-256
  method        TEXT    NOT NULL,
  path          TEXT    NOT NULL,
  status        INTEGER NOT NULL,  -- always 2xx
  location      TEXT    NOT NULL,
  etag          TEXT    NOT NULL,  -- '' when the answer had none
  body          BLOB    NOT NULL,  -- to the byte
  first_used_at INTEGER NOT NULL,
  expires_at    INTEGER NOT NULL,  -- decides on reading whether the key lives; the sweep only frees space
  UNIQUE (credential, key)
) STRICT;

CREATE INDEX keys_by_expiry ON keys (expires_at);
