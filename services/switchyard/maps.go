package main

import (
	"context"
	"fmt"

	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

// MapsCmd looks after expert maps in files; switchyard-lab builds them.
type MapsCmd struct {
	Inspect MapsInspectCmd `cmd:"" help:"Say what snapshots have: model, shape, tenants, maps, bytes, digest."`
	Export  MapsExportCmd  `cmd:"" help:"Write a tenant's maps for other programs, in the safetensors format."`
	Import  MapsImportCmd  `cmd:"" help:"Add maps of snapshots and exported files to a snapshot, which is made if it is not there."`
	Forget  MapsForgetCmd  `cmd:"" help:"Erase a tenant's maps from snapshots."`
}

// MapsInspectCmd reads snapshots.
type MapsInspectCmd struct {
	JSON  bool     `name:"json" help:"Print a JSON object for each."`
	Files []string `arg:"" name:"file" help:"Snapshots of expert maps."`
}

// inspected is what a snapshot has.
type inspected struct {
	File string `json:"file"`
	expertmap.Settings
	Tenants []tenantMaps `json:"tenants"`
	Bytes   int64        `json:"bytes"` // in memory
	Digest  string       `json:"digest"`
}

type tenantMaps struct {
	Tenant string `json:"tenant"`
	Maps   int    `json:"maps"`
}

// Run prints what each has.
func (c *MapsInspectCmd) Run(ctx context.Context, e *cli.Env) error {
	for _, file := range c.Files {
		if ctx.Err() != nil {
			return cli.ErrInterrupted
		}
		s, err := readMaps(file)
		if err != nil {
			return err
		}
		one := inspected{File: file, Settings: s.Settings, Tenants: []tenantMaps{}, Bytes: s.MemoryBytes(), Digest: s.Digest()}
		text := fmt.Sprintf("%s: maps of model %.12s: %s\n  capacity %d, distance %d, replaced by %s, shared %v, held as %s and %s, %s in memory, digest %.12s\n",
			file, s.Model, s.Shape, s.Capacity, s.Distance, s.Replace, s.Shared, s.Maps, s.Embeddings, cli.Gigabytes(one.Bytes), one.Digest)
		names, counts := s.Owners()
		for i, name := range names {
			one.Tenants = append(one.Tenants, tenantMaps{name, counts[i]})
			text += fmt.Sprintf("  %s: %d maps\n", name, counts[i])
		}
		if err := cli.Show(e, c.JSON, one, text); err != nil {
			return err
		}
	}
	return nil
}

// readMaps reads a snapshot; one that cannot be used is unusable input.
func readMaps(file string) (*expertmap.Store, error) {
	s, err := mapfile.Read(file)
	if err != nil {
		return nil, cli.Usage(err)
	}
	return s, nil
}

// MapsExportCmd writes a tenant's maps.
type MapsExportCmd struct {
	Tenant string `env:"-" default:"${tenant}" help:"Whose maps." placeholder:"NAME"`
	Out    string `required:"" help:"File to write." placeholder:"FILE"`
	File   string `arg:"" name:"file" help:"A snapshot of expert maps."`
}

// Run exports.
func (c *MapsExportCmd) Run(_ context.Context, e *cli.Env) error {
	s, err := readMaps(c.File)
	if err != nil {
		return err
	}
	n, err := mapfile.Export(c.Out, s, c.Tenant)
	if err != nil {
		return err
	}
	return cli.Show(e, false, nil, fmt.Sprintf("%d maps of tenant %s in %s\n", n, c.Tenant, c.Out))
}
