package fleet

import (
	"fmt"
	"syscall"
	"testing"
)

// Disk is a file system of its own for what a server stores: it can be full.
type Disk struct{ dir string }

// diskBytes is more than a server stores in an hour of a load test.
const diskBytes = 4 << 30

// NewDisk mounts one in memory, which takes a privilege that not every machine gives.
func NewDisk(t *testing.T) (*Disk, error) {
	t.Helper()
	d := &Disk{t.TempDir()}
	if err := d.mount(0, diskBytes); err != nil {
		return nil, fmt.Errorf("mounting a small file system: %w", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(d.dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return d, nil
}

func (d *Disk) mount(flags uintptr, bytes uint64) error {
	return syscall.Mount("switchyard", d.dir, "tmpfs", flags, fmt.Sprintf("size=%d", bytes))
}

// Dir is where it is mounted.
func (d *Disk) Dir() string { return d.dir }

// fillTries are several: what is stored while it is filled needs more.
const fillTries = 20

// Fill leaves no room on it.
func (d *Disk) Fill() error {
	var s syscall.Statfs_t
	var err error
	for range fillTries {
		if err = syscall.Statfs(d.dir, &s); err != nil {
			break
		}
		if err = d.mount(syscall.MS_REMOUNT, max(1, s.Blocks-s.Bfree)*uint64(s.Bsize)); err == nil {
			return nil
		}
	}
	return fmt.Errorf("filling a disk: %w", err)
}

// Free gives it room again.
func (d *Disk) Free() error {
	if err := d.mount(syscall.MS_REMOUNT, diskBytes); err != nil {
		return fmt.Errorf("making room on a disk: %w", err)
	}
	return nil
}
