package main

import "syscall"

// mountSmallDisk puts a file system of that size at dir. It takes root.
func mountSmallDisk(dir, size string) error {
	return syscall.Mount("none", dir, "tmpfs", 0, "size="+size)
}

func unmount(dir string) { _ = syscall.Unmount(dir, syscall.MNT_DETACH) } // or it stays until the machine ends
