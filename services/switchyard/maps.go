package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/compute/recording"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
	"github.com/switchyard/switchyard/services/switchyard/maps"
)

// MapsCmd looks after expert maps in files.
type MapsCmd struct {
	Build   MapsBuildCmd   `cmd:"" help:"Build a store of expert maps from a recording, and say what it foretells."`
	Inspect MapsInspectCmd `cmd:"" help:"Say what snapshots have: model, shape, tenants, maps, bytes, digest."`
	Export  MapsExportCmd  `cmd:"" help:"Write a tenant's maps for other programs, in the safetensors format."`
	Import  MapsImportCmd  `cmd:"" help:"Add maps of snapshots and exported files to a snapshot, which is made if it is not there."`
	Forget  MapsForgetCmd  `cmd:"" help:"Erase a tenant's maps from snapshots."`
}

// MapStoreFlags say what a store is like.
type MapStoreFlags struct {
	Capacity   int     `default:"1000" help:"Most maps of a tenant; with --shared of all tenants." placeholder:"N"`
	Distance   int     `default:"3" help:"How many layers ahead maps foretell experts; maps of the row's embedding do so for as many layers at the beginning." placeholder:"N"`
	Replace    string  `default:"redundant" enum:"redundant,fifo,k-centre,least-useful,skip-redundant" help:"Which map goes for a new one: redundant (the most similar one), fifo, k-centre (the older of the two most similar), least-useful (the least found), skip-redundant (fifo, but a new one that is similar to one is not taken)." placeholder:"RULE"`
	Redundancy float32 `default:"0.9" help:"With skip-redundant: the similarity from which on a new map is not taken." placeholder:"RATIO"`
	Shared     bool    `help:"All tenants search one set of maps, so that one may learn of another's prompts."`
	Tenants    int     `name:"most-tenants" default:"64" help:"Most tenants that have maps." placeholder:"N"`
	Maps       string  `name:"map-format" default:"f32" enum:"f32,bf16,fp8" help:"How probabilities are held: f32, bf16 or fp8." placeholder:"TYPE"`
	Embeddings string  `name:"embedding-format" default:"f32" enum:"f32,bf16,fp8" help:"How embeddings are held: f32, bf16 or fp8." placeholder:"TYPE"`
}

func (f MapStoreFlags) settings() expertmap.Settings {
	return expertmap.Settings{
		Capacity: f.Capacity, Distance: f.Distance, Replace: expertmap.Replacement(f.Replace), Redundancy: f.Redundancy,
		Shared: f.Shared, Tenants: f.Tenants, Maps: expertmap.Format(f.Maps), Embeddings: expertmap.Format(f.Embeddings),
	}
}

// MapsBuildCmd builds a store without serving.
type MapsBuildCmd struct {
	KernelsFlag `embed:""`

	Model       string  `help:"Hugging Face model directory; without it the demo model in this binary." placeholder:"DIR"`
	Out         string  `help:"Snapshot to write; without it the store is only measured." placeholder:"FILE"`
	Train       float64 `default:"1" help:"Share of each domain's sequences of which the store is built; it is measured on the others." placeholder:"RATIO"`
	Least       float64 `default:"0" help:"Measure with a threshold of at least so much; the paper's, 1 less the score, is often 0." placeholder:"RATIO"`
	Online      bool    `help:"Take in maps of what is measured, too, after each step, as while serving."`
	PrefillMaps string  `default:"mean" enum:"last,mean,rows" help:"Which maps a prompt has: of its last row, the mean of all, or one of each row." placeholder:"ROWS"`
	Embedding   string  `default:"rows" enum:"last,mean,rows,pair" help:"What stands beside a map: the row's own embedding (rows or last), a quarter of the one before it added (pair), or the mean of the context's." placeholder:"ROWS"`
	Tenant      string  `env:"-" default:"${tenant}" help:"Whose maps they are." placeholder:"NAME"`
	Threads     int     `default:"0" help:"Threads that compute; 0 is one for each core that it may use." placeholder:"N"`
	JSON        bool    `name:"json" help:"Print a JSON object."`
	Recording   string  `arg:"" name:"recording" help:"File of switchyard record, with inputs of gates."`

	MapStoreFlags `embed:""`
}

// Run builds, measures and writes.
func (c *MapsBuildCmd) Run(ctx context.Context, e *env) (err error) {
	m, err := openModel(ctx, e, c.Model)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	r, err := recording.Open(c.Recording)
	if err != nil {
		return usage(err)
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	threads, err := newPool(c.Threads)
	if err != nil {
		return err
	}
	defer threads.Close()
	line := e.progress()
	defer line.Clear()
	s := maps.Settings{
		Model: m, Pool: threads, Recording: r, Store: c.settings(), Prefill: maps.Of(c.PrefillMaps), Embedding: maps.Of(c.Embedding),
		Train: c.Train, Least: c.Least, Online: c.Online, Tenant: c.Tenant, Progress: line.Set,
	}
	if err := s.Check(); err != nil {
		return usage(err)
	}
	if c.Out != "" {
		if err := takesFiles("--out", filepath.Dir(c.Out)); err != nil {
			return err
		}
	}
	store, report, err := maps.Run(ctx, s)
	if err == nil && c.Out != "" {
		err = mapfile.Write(c.Out, store)
	}
	if err != nil {
		return err
	}
	line.Clear()
	return show(e, c.JSON, report, report.String())
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
func (c *MapsInspectCmd) Run(ctx context.Context, e *env) error {
	for _, file := range c.Files {
		if ctx.Err() != nil {
			return errInterrupted
		}
		s, err := readMaps(file)
		if err != nil {
			return err
		}
		one := inspected{File: file, Settings: s.Settings, Tenants: []tenantMaps{}, Bytes: s.MemoryBytes(), Digest: s.Digest()}
		text := fmt.Sprintf("%s: maps of model %.12s: %s\n  capacity %d, distance %d, replaced by %s, shared %v, held as %s and %s, %s in memory, digest %.12s\n",
			file, s.Model, s.Shape, s.Capacity, s.Distance, s.Replace, s.Shared, s.Maps, s.Embeddings, gigabytes(one.Bytes), one.Digest)
		names, counts := s.Owners()
		for i, name := range names {
			one.Tenants = append(one.Tenants, tenantMaps{name, counts[i]})
			text += fmt.Sprintf("  %s: %d maps\n", name, counts[i])
		}
		if err := show(e, c.JSON, one, text); err != nil {
			return err
		}
	}
	return nil
}

// readMaps reads a snapshot; one that cannot be used is unusable input.
func readMaps(file string) (*expertmap.Store, error) {
	s, err := mapfile.Read(file)
	if err != nil {
		return nil, usage(err)
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
func (c *MapsExportCmd) Run(_ context.Context, e *env) error {
	s, err := readMaps(c.File)
	if err != nil {
		return err
	}
	n, err := mapfile.Export(c.Out, s, c.Tenant)
	if err != nil {
		return err
	}
	return show(e, false, nil, fmt.Sprintf("%d maps of tenant %s in %s\n", n, c.Tenant, c.Out))
}
