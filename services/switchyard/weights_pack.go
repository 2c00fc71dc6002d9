package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/services/switchyard/cli"
)

const plainSuffix = ".safetensors"

// WeightsPackCmd packs files.
type WeightsPackCmd struct {
	Paths []string `arg:"" name:"path" help:"A .safetensors file, or a directory with some."`
}

// WeightsUnpackCmd unpacks files.
type WeightsUnpackCmd struct {
	Paths []string `arg:"" name:"path" help:"A .safetensors.packed file, or a directory with some."`
}

// Run packs all files, and leaves the plain ones.
func (c *WeightsPackCmd) Run(ctx context.Context, e *cli.Env) error {
	files, err := weightFiles(c.Paths, plainSuffix)
	if err != nil {
		return err
	}
	for _, from := range files {
		err := rewrite(ctx, e, from, from+safetensors.PackedSuffix, safetensors.Pack)
		if err != nil {
			return fmt.Errorf("packing %s: %w", from, err)
		}
	}
	return nil
}

// Run unpacks all files, and leaves the packed ones.
func (c *WeightsUnpackCmd) Run(ctx context.Context, e *cli.Env) error {
	files, err := weightFiles(c.Paths, plainSuffix+safetensors.PackedSuffix)
	if err != nil {
		return err
	}
	for _, from := range files {
		err := rewrite(ctx, e, from, strings.TrimSuffix(from, safetensors.PackedSuffix), unpackTo)
		if err != nil {
			return fmt.Errorf("unpacking %s: %w", from, err)
		}
	}
	return nil
}

func unpackTo(w io.Writer, packed []byte) (err error) {
	plain, release, err := safetensors.UnpackOutside(packed)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	_, err = w.Write(plain)
	return err
}

// weightFiles returns the files of the paths: those named, and in a directory those with
// that suffix. To name none is a mistake.
func weightFiles(paths []string, suffix string) (files []string, err error) {
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, cli.Usage(err)
		}
		found := []string{path}
		if info.IsDir() {
			names, err := fs.Glob(os.DirFS(path), "*"+suffix)
			if err != nil || len(names) == 0 {
				return nil, cli.Usage(fmt.Errorf("%s has no file whose name ends with %s", path, suffix))
			}
			found = names
			for i, name := range names {
				found[i] = filepath.Join(path, name)
			}
		}
		if !strings.HasSuffix(found[0], suffix) {
			return nil, cli.Usage(fmt.Errorf("the name of %s does not end with %s", path, suffix))
		}
		files = append(files, found...)
	}
	return files, nil
}

// rewrite makes to of from, whole or not at all; it replaces no file.
func rewrite(ctx context.Context, e *cli.Env, from, to string, turn func(io.Writer, []byte) error) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	if _, err := os.Lstat(to); !errors.Is(err, fs.ErrNotExist) {
		return cli.Usage(fmt.Errorf("%s is there already", to))
	}
	data, release, err := safetensors.Map(from)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, release()) }()
	out, err := os.CreateTemp(filepath.Dir(to), ".switchyard-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(out.Name()) // the error is told already
		}
	}()
	buffer := bufio.NewWriterSize(out, 1<<20)
	if err = errors.Join(turn(buffer, data), buffer.Flush(), out.Chmod(0o644), out.Close()); err != nil {
		return err
	}
	if err = os.Rename(out.Name(), to); err != nil {
		return err
	}
	info, err := os.Stat(to)
	if err == nil {
		_, err = fmt.Fprintf(e.Out, "%s: %d bytes of %d\n", to, info.Size(), len(data))
	}
	return err
}
