package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// contexts are the stored connections. No token is among them, only paths of files.
type contexts struct {
	Current  string                `json:"current,omitempty"`
	Contexts map[string]connection `json:"contexts"`
}

// contextsPath is in the user's directory for configuration.
func contextsPath() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", coded(exitConfig, fmt.Errorf("find the contexts: %w", err))
	}
	return filepath.Join(dir, "delaybridge", "contexts.json"), nil
}

// loadContexts reads the contexts; there are none if there is no file.
func loadContexts() (contexts, error) {
	c := contexts{Contexts: make(map[string]connection)}
	path, err := contextsPath()
	if err != nil {
		return c, err
	}
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, coded(exitConfig, fmt.Errorf("read the contexts: %w", err))
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	err = decoder.Decode(&c)
	if err == nil && c.Contexts == nil {
		err = errors.New("contexts is null")
	}
	if err != nil {
		return c, coded(exitConfig, fmt.Errorf("read the contexts in %s: %w", path, err))
	}
	return c, nil
}

// store replaces the file, which only its owner can read.
func (c contexts) store() error {
	path, err := contextsPath()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err == nil {
		err = replaceFile(path, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the contexts: %w", err)
	}
	return nil
}

// replaceFile writes a file with mode 0600, as a whole or not at all.
func replaceFile(path string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), ".contexts-")
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		os.Remove(file.Name()) // it may be there no more
	}
	return err
}

// find returns the context of that name.
func (c contexts) find(name string) (connection, error) {
	found, ok := c.Contexts[name]
	if !ok {
		return found, usageError("there is no context " + escape(name) + ": delaybridge context list shows all")
	}
	return found, nil
}

// contextNamed returns a stored context; without a name the one in use, if there is one.
func contextNamed(name string) (connection, error) {
	if _, err := contextsPath(); err != nil && name == "" { // a user without a home
		return connection{}, nil
	}
	all, err := loadContexts()
	if err != nil {
		return connection{}, err
	}
	if name = cmp.Or(name, all.Current); name == "" {
		return connection{}, nil
	}
	return all.find(name)
}
