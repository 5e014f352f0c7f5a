// backup.go owns copying the database while it is in use. It must not know what the
// tables mean.

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// backup writes a copy of the database, as it is at this moment, to a file that must
// not exist yet. Writers are not held up. The copy has its name only when it is whole
// and on the disk.
func (s *store) backup(path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("la copia %s: ya existe, y no se reemplaza", path)
	}
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return fmt.Errorf("la copia %s: la carpeta no existe", path)
	}
	partial, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.partial") // nobody else's
	if err != nil {
		return fmt.Errorf("la copia %s: %w", path, err)
	}
	defer os.Remove(partial.Name() + "-journal")
	defer os.Remove(partial.Name())
	// The name goes as a URI, because a plain one that begins with "file:" would be read
	// as one.
	_, err = s.moveDB.Exec(`VACUUM INTO ?`, fileURI(partial.Name()))
	if err == nil {
		err = errors.Join(partial.Sync(), partial.Close())
	}
	if err == nil {
		err = publish(partial.Name(), path)
	}
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("la copia %s: ya existe, y no se reemplaza", path)
	}
	return storeError("la copia "+path, err)
}

// publish gives a finished file its name, if nothing has it, and puts the name on the
// disk.
func publish(partial, path string) error {
	err := os.Link(partial, path)
	if err != nil && !errors.Is(err, fs.ErrExist) { // a file system without links
		if _, statErr := os.Lstat(path); statErr == nil {
			return fs.ErrExist
		}
		err = os.Rename(partial, path)
	}
	if err != nil {
		return err
	}
	return syncNames(filepath.Dir(path))
}

// syncNames puts the names in a directory on the disk.
func syncNames(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
