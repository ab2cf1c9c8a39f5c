package redisstore

import (
	"context"
	"errors"
	"fmt"
)

// ReadFormats tells which formats are stored under c.Prefix, and who knows them. It
// opens no store, so that an instance which could not start can ask, too. Without
// anything stored, it is an error.
func ReadFormats(ctx context.Context, c Config) (Formats, error) {
	s, err := c.admin()
	if err != nil {
		return Formats{}, err
	}
	defer s.client.Close()
	f, err := s.formatCall(ctx, s.client, "", 0)
	switch {
	case err != nil:
		return Formats{}, err
	case f.Newest == 0:
		return Formats{}, s.nothingStored()
	}
	return *f, nil
}

// PinFormat has nothing newer than format written from now on, until it is pinned
// elsewhere; 0 ends that. Instances hear of it within 5 s while they accept or deliver,
// and say so: see Formats. What is stored already stays as it is.
func PinFormat(ctx context.Context, c Config, format int) error {
	if format < 0 {
		return errors.New("format must not be negative")
	}
	s, err := c.admin()
	if err != nil {
		return err
	}
	defer s.client.Close()
	call := newCall(ctx, s.scripts.pin, []string{s.keys.meta()}, format)
	s.run(ctx, s.client, call)
	switch stored, err := call.Int(); {
	case err != nil:
		return fault("pin format", err)
	case stored == 0:
		return s.nothingStored()
	}
	return nil
}

// admin is a store that serves for single calls only.
func (c Config) admin() (*Store, error) {
	if err := c.Check(); err != nil {
		return nil, fmt.Errorf("configuration of the Redis store: %w", err)
	}
	c = c.withDefaults()
	return &Store{config: c, client: c.connect(1), scripts: newScripts(), keys: keySpace{prefix: c.Prefix}}, nil
}

func (s *Store) nothingStored() error {
	return fmt.Errorf("nothing is stored under prefix %q yet: no instance has started with it", s.config.Prefix)
}
