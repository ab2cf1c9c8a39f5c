//go:build unix && !linux

package main

import "errors"

func mountSmallDisk(string, string) error { return errors.New("only on Linux") }

func unmount(string) {}
