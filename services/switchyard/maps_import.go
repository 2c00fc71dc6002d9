package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// MapsImportCmd adds maps to a snapshot.
type MapsImportCmd struct {
	Into   string   `required:"" help:"Snapshot to add to. If it is not there, it is made with the flags below." placeholder:"FILE"`
	Tenant string   `env:"-" help:"Whose the maps of exported files are from now on; default is whose they were." placeholder:"NAME"`
	Files  []string `arg:"" name:"file" help:"Snapshots, and files of switchyard maps export."`

	cli.MapStoreFlags `embed:""`
}

// Run adds all files' maps, or none.
func (c *MapsImportCmd) Run(ctx context.Context, e *cli.Env) error {
	store, err := mapfile.Read(c.Into)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return cli.Usage(err)
	}
	for _, file := range c.Files {
		if ctx.Err() != nil {
			return cli.ErrInterrupted
		}
		if store, err = c.add(store, file); err != nil {
			return cli.Usage(fmt.Errorf("%s: %w", file, err))
		}
	}
	if err := mapfile.Write(c.Into, store); err != nil {
		return err
	}
	counts := store.Counts()
	return cli.Show(e, false, nil, fmt.Sprintf("%d maps in %s; %d replaced others, %d were not taken\n", counts.Added, c.Into, counts.Replaced, counts.Skipped))
}

// add adds a file's maps to the store, which is made if there is none.
func (c *MapsImportCmd) add(store *expertmap.Store, file string) (*expertmap.Store, error) {
	from, err := mapfile.Read(file)
	if err == nil {
		if store, err = c.orNew(store, from.Shape, from.Model); err != nil {
			return nil, err
		}
		return store, store.Merge(from)
	}
	if !errors.Is(err, expertmap.ErrNoSnapshot) {
		return nil, err
	}
	x, err := mapfile.Import(file)
	if err != nil {
		return nil, err
	}
	if store, err = c.orNew(store, x.Shape, x.Model); err != nil {
		return nil, err
	}
	if err := store.Fits(x.Model, x.Shape); err != nil {
		return nil, err
	}
	tenant := x.Tenant
	if c.Tenant != "" {
		tenant = c.Tenant
	}
	return store, store.AddBatch(tenant, x.Maps)
}

// orNew returns the store, or an empty one.
func (c *MapsImportCmd) orNew(store *expertmap.Store, shape expertmap.Shape, model string) (*expertmap.Store, error) {
	if store != nil {
		return store, nil
	}
	s := c.Settings()
	s.Shape, s.Model = shape, model
	return expertmap.New(s)
}

// MapsForgetCmd erases a tenant.
type MapsForgetCmd struct {
	Tenant string   `env:"-" required:"" help:"Whose maps." placeholder:"NAME"`
	Paths  []string `arg:"" name:"path" help:"Snapshots, or folders with some."`
}

// Run rewrites every snapshot that has maps of the tenant. One that cannot be read keeps
// none of the others from it.
func (c *MapsForgetCmd) Run(ctx context.Context, e *cli.Env) error {
	files, err := snapshots(c.Paths)
	if err != nil {
		return cli.Usage(err)
	}
	total := 0
	var failed []error
	for _, file := range files {
		if ctx.Err() != nil {
			return cli.ErrInterrupted
		}
		n, err := mapfile.Forget(file, c.Tenant)
		if err != nil {
			failed = append(failed, fmt.Errorf("%w; what it has of the tenant is still there: remove the file", err))
		}
		total += n
	}
	text := fmt.Sprintf("%d maps of tenant %s erased; %d of %d files were looked through\n", total, c.Tenant, len(files)-len(failed), len(files))
	if err := cli.Show(e, false, nil, text); err != nil || len(failed) == 0 {
		return err
	}
	return errors.Join(failed...)
}

// snapshots returns the files that are named, and those in folders that are snapshots, or
// were to become some.
func snapshots(paths []string) (files []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		if err := filepath.WalkDir(path, func(file string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && mapfile.Is(file) {
				files = append(files, mapfile.Whole(file))
			}
			return err
		}); err != nil {
			return nil, err
		}
	}
	slices.Sort(files)
	if files = slices.Compact(files); len(files) == 0 {
		return nil, errors.New("there is no snapshot of expert maps there; name files, or a folder that has some")
	}
	return files, nil
}
