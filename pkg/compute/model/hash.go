package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/switchyard/switchyard/pkg/compute/digest"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

// Settings are what code sets when it opens a model.
type Settings struct {
	// Progress, if set, hears how many bytes of weights are hashed of those that
	// have to be. Calls come one after the other.
	Progress func(done, total int64)
	// Log, if set, hears of caches of digests that were not believed.
	Log *slog.Logger
	// Unhashed leaves Hash empty, for who only wants to look at the model.
	Unhashed bool

	known []byte // digests of all tensors, as JSON; nil: they are hashed
}

// digestFile is the cache of digests in a model's folder.
const digestFile = ".switchyard-digests"

// digests are those of the tensors that the model uses, under their names in
// the files.
func (c *checkpoint) digests(ctx context.Context, used map[string]bool, s Settings) ([]digest.Tensor, error) {
	files, tensors, total := c.usedFiles(used)
	sums, err := s.sums(ctx, files, total, c.dir)
	if err != nil {
		return nil, err
	}
	list := make([]digest.Tensor, 0, len(tensors))
	for _, t := range tensors {
		list = append(list, digest.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape, Sum: sums[t.Name]})
	}
	return list, nil
}

// sums are known already, or are hashed.
func (s Settings) sums(ctx context.Context, files []digest.File, total int64, dir string) (sums map[string]digest.Sum, err error) {
	if s.known != nil {
		if err := json.Unmarshal(s.known, &sums); err != nil {
			return nil, fmt.Errorf("reading the digests of the model in this binary: %w", err)
		}
		return sums, nil
	}
	settings := digest.Settings{Progress: s.Progress, Log: s.Log}
	if total > digest.Small {
		settings.Caches = caches(dir)
	}
	return digest.Files(ctx, files, settings)
}

// usedFiles lists the files with those of their tensors that are used.
func (c *checkpoint) usedFiles(used map[string]bool) (files []digest.File, all []safetensors.Tensor, total int64) {
	for _, f := range c.files {
		part := digest.File{Name: f.name, Header: f.Header()}
		if c.dir != "" {
			part.Path = filepath.Join(c.dir, f.name)
		}
		for _, name := range f.Names() {
			if t, ok := f.Tensor(name); ok && used[name] && c.home[name] == f.File {
				part.Tensors = append(part.Tensors, t)
				total += int64(len(t.Data))
			}
		}
		files = append(files, part)
		all = append(all, part.Tensors...)
	}
	return files, all, total
}

// caches are the files that a folder's digests are kept in: beside the weights,
// so that who shares the folder shares them, or in the user's cache folder.
func caches(dir string) []string {
	if dir == "" {
		return nil
	}
	paths := []string{filepath.Join(dir, digestFile)}
	abs, err := filepath.Abs(dir)
	user, noUser := os.UserCacheDir()
	if err != nil || noUser != nil {
		return paths
	}
	name := sha256.Sum256([]byte(abs))
	return append(paths, filepath.Join(user, "switchyard", "digests", hex.EncodeToString(name[:16])))
}
