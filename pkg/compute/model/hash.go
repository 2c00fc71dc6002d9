package model

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
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
}

// digestFile is the cache of digests in a model's folder.
const digestFile = ".switchyard-digests"

// hash gives the model its identity from the tensors that it uses, and closes
// the files if that fails.
func (m *Model) hash(ctx context.Context, c *checkpoint, s Settings) error {
	files, tensors, total := c.usedFiles(m.names())
	settings := digest.Settings{Progress: s.Progress, Log: s.Log}
	if total > digest.Small {
		settings.Caches = caches(c.dir)
	}
	sums, err := digest.Files(ctx, files, settings)
	if err != nil {
		return errors.Join(err, c.close())
	}
	m.identify(c, tensors, sums)
	return nil
}

// know is hash with digests that are known already, as a JSON object.
func (m *Model) know(c *checkpoint, digests []byte) error {
	var sums map[string]digest.Sum
	if err := json.Unmarshal(digests, &sums); err != nil {
		return fmt.Errorf("reading digests: %w", err)
	}
	_, tensors, _ := c.usedFiles(m.names())
	m.identify(c, tensors, sums)
	return nil
}

func (m *Model) identify(c *checkpoint, tensors []safetensors.Tensor, sums map[string]digest.Sum) {
	for _, t := range tensors {
		m.digests = append(m.digests, digest.Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape, Sum: sums[t.Name]})
	}
	m.Hash = digest.Identity(c.config, m.digests)
}

// usedFiles lists the files with those of their tensors that are used.
func (c *checkpoint) usedFiles(used map[string]bool) (files []digest.File, all []safetensors.Tensor, total int64) {
	for _, f := range c.files {
		part := digest.File{Name: f.name, Header: f.Header()}
		if c.dir != "" && !f.Packed() {
			part.Path = filepath.Join(c.dir, f.name)
		}
		for _, name := range f.Names() {
			if t, ok := f.Tensor(name); ok && used[name] && c.home[name] == f.weightFile {
				part.Tensors = append(part.Tensors, t)
				total += int64(len(t.Data))
			}
		}
		files = append(files, part)
		all = append(all, part.Tensors...)
	}
	return files, all, total
}

// caches returns the files that a folder's digests are kept in: beside the weights,
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
