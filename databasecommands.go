// databasecommands.go owns the commands that open the database themselves: backup and those
// about credentials. It must not know how anything is stored, nor what a server does
// with it.

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"text/tabwriter"
)

// databaseFlag is the flag of the commands that open the database.
type databaseFlag struct {
	DB string `name:"db" default:"${database}" variable:"REVISOR_DB" placeholder:"FILE" help:"Database file (default ${database})."`
}

// backupCommand copies the database.
type backupCommand struct {
	File string `arg:"" help:"File to write; it must not exist yet."`
	databaseFlag
}

// Run copies the database, whether a server is running on it or not.
func (c *backupCommand) Run(p *process) error {
	return p.withExistingStore(c.DB, func(s *store) error {
		if err := s.backup(c.File); err != nil {
			return err
		}
		fmt.Fprintf(p.stdout, "Copia de %s guardada en %s.\n", c.DB, c.File)
		return nil
	})
}

// credentialCommand is the commands about credentials.
type credentialCommand struct {
	Add    credentialAdd    `cmd:"" help:"Make a credential and print its token, once."`
	List   credentialList   `cmd:"" help:"List the credentials, revoked ones included."`
	Revoke credentialRevoke `cmd:"" help:"End a credential. A running server obeys within a second."`
}

// credentialAdd makes a credential.
type credentialAdd struct {
	Name string `arg:"" help:"Its name; never used again, not after a revocation either."`
	Team string `required:"" placeholder:"TEAM" variable:"REVISOR_TEAM" help:"Its team: a, b, … or '*' for an admin."`
	Role string `required:"" enum:"reader,writer,admin" placeholder:"ROLE" variable:"REVISOR_ROLE" help:"reader, writer or admin."`
	databaseFlag
}

// Run makes the credential. Its token is the only thing on standard output.
func (c *credentialAdd) Run(p *process) error {
	cred, token, err := newCredential(c.Name, c.Team, c.Role, p.now())
	if err != nil {
		return &usageError{err}
	}
	return p.withStore(c.DB, func(s *store) error {
		var taken bool
		err := s.write(p.ctx, func(t *tx) (err error) {
			taken, err = t.insertCredential(cred)
			return err
		})
		if err != nil {
			return err
		}
		if taken {
			return fmt.Errorf("ya hubo una credencial con el nombre %q", c.Name)
		}
		fmt.Fprintf(p.stderr, "Credencial %s (equipo %s, rol %s). Este es su secreto; no se volverá a mostrar:\n", cred.name, cred.team, cred.role)
		fmt.Fprintln(p.stdout, token)
		return nil
	})
}

// credentialList tells the credentials.
type credentialList struct {
	databaseFlag
}

// Run prints a table. No token is in it: none is kept.
func (c *credentialList) Run(p *process) error {
	return p.withExistingStore(c.DB, func(s *store) error {
		all, err := s.credentials()
		if err != nil {
			return err
		}
		table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
		fmt.Fprintln(table, "NOMBRE\tEQUIPO\tROL\tCREADA\tESTADO")
		for _, cred := range all {
			state := "vigente"
			if cred.revoked {
				state = "revocada"
			}
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", cred.name, cred.team, cred.role, wireTime(cred.created), state)
		}
		return table.Flush()
	})
}

// credentialRevoke ends a credential.
type credentialRevoke struct {
	Name string `arg:"" help:"Its name."`
	databaseFlag
}

// Run revokes the credential.
func (c *credentialRevoke) Run(p *process) error {
	return p.withExistingStore(c.DB, func(s *store) error {
		var done bool
		err := s.write(p.ctx, func(t *tx) (err error) {
			done, err = t.revokeCredential(c.Name, p.now())
			return err
		})
		if err != nil {
			return err
		}
		if !done {
			return fmt.Errorf("no hay ninguna credencial vigente con el nombre %q", c.Name)
		}
		fmt.Fprintf(p.stdout, "Credencial %s revocada.\n", c.Name)
		return nil
	})
}

// withStore opens the database, making it if need be, for the time of do.
func (p *process) withStore(path string, do func(*store) error) error {
	s, err := openStore(path, newTag)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.close())
}

// withExistingStore does not make a database where there is none: a mistyped name
// deserves an answer.
func (p *process) withExistingStore(path string, do func(*store) error) error {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no existe la base de datos %s", path)
	}
	return p.withStore(path, do)
}
