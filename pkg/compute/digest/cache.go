package digest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
)

const (
	// cacheFormat is the first word of a cache; its digest follows.
	cacheFormat = "switchyard-digests-1"
	// maxCache bounds a cache, in bytes: some 1.5 million tensors.
	maxCache = 256 << 20
	// young is the age below which a file is not cached: a further write could
	// leave it the time that it has.
	young = 2 * time.Second
	// Of each file, up to probes tensors of at most probeBytes are hashed again.
	probes, probeBytes = 4, 1 << 20
)

// entry is what a cache knows of one file.
type entry struct {
	Size    int64          `json:"size"`
	Changed int64          `json:"changed"` // in nanoseconds since 1970
	Header  Sum            `json:"header"`
	Tensors map[string]Sum `json:"tensors"`
}

// cache is all that is known of a folder's files.
type cache struct {
	paths []string
	log   *slog.Logger
	known map[string]entry // from the caches
	seen  map[string]entry // the files as they are, without tensors
	stale bool             // something is to be written
}

// openCache reads the caches. One that is no good is as good as none.
func openCache(s Settings) *cache {
	c := &cache{paths: s.Caches, log: s.Log, known: map[string]entry{}, seen: map[string]entry{}}
	for _, path := range slices.Backward(c.paths) {
		files, err := readCache(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.warn("a cache of digests was not believed", "file", path, "error", err)
		}
		maps.Copy(c.known, files)
	}
	return c
}

func (c *cache) warn(what string, args ...any) {
	if c.log != nil {
		c.log.Warn(what, args...)
	}
}

func readCache(path string) (map[string]entry, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxCache {
		return nil, fmt.Errorf("it is no regular file of at most %d bytes", maxCache)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return parseCache(data)
}

// parseCache reads a line with format and digest, and the JSON behind it.
func parseCache(data []byte) (map[string]entry, error) {
	line, body, _ := bytes.Cut(data, []byte("\n"))
	format, digest, _ := bytes.Cut(line, []byte(" "))
	if string(format) != cacheFormat {
		return nil, fmt.Errorf("it begins with %.40q instead of %s", format, cacheFormat)
	}
	var want Sum
	if err := want.UnmarshalText(digest); err != nil {
		return nil, err
	}
	if sha256.Sum256(body) != want {
		return nil, errors.New("it is damaged: its content does not have the digest in its first line")
	}
	var files map[string]entry
	if err := json.Unmarshal(body, &files); err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	return files, nil
}

// lookUp returns what is known of a file as it is now.
func (c *cache) lookUp(ctx context.Context, f File) (map[string]Sum, error) {
	if len(c.paths) == 0 || f.Path == "" {
		return nil, nil
	}
	now, err := look(f)
	if err != nil {
		return nil, err
	}
	c.seen[f.Name] = now
	e, ok := c.known[f.Name]
	if !ok || e.Size != now.Size || e.Changed != now.Changed || e.Header != now.Header || !c.probe(ctx, f, e) {
		c.stale = true
		return nil, nil
	}
	for _, t := range f.Tensors {
		_, ok := e.Tensors[t.Name]
		c.stale = c.stale || !ok
	}
	return e.Tensors, nil
}

func look(f File) (entry, error) {
	info, err := os.Stat(f.Path)
	if err != nil {
		return entry{}, fmt.Errorf("looking at %s: %w", f.Name, err)
	}
	return entry{Size: info.Size(), Changed: info.ModTime().UnixNano(), Header: sha256.Sum256(f.Header)}, nil
}

// probe hashes some of a file's small tensors again, chosen by chance.
func (c *cache) probe(ctx context.Context, f File, e entry) bool {
	small := slices.DeleteFunc(slices.Clone(f.Tensors), func(t safetensors.Tensor) bool {
		_, ok := e.Tensors[t.Name]
		return !ok || len(t.Data) > probeBytes
	})
	rand.Shuffle(len(small), func(i, j int) { small[i], small[j] = small[j], small[i] })
	buf := make([]byte, probeBytes)
	for _, t := range small[:min(probes, len(small))] {
		s, err := job{f, t}.sum(ctx, buf, func(int64) {})
		if ctx.Err() != nil {
			return false // nothing is hashed any more, either
		}
		if err != nil || s != e.Tensors[t.Name] {
			c.warn("a cached digest is wrong; the file is hashed anew", "file", f.Path, "tensor", t.Name)
			return false
		}
	}
	return true
}

// keep writes what is new into the first cache that can be written, and into
// none if none can: a cache only saves time.
func (c *cache) keep(files []File, sums map[string]Sum) error {
	for _, f := range files {
		before, ok := c.seen[f.Name]
		if !ok {
			continue
		}
		after, err := look(f)
		if err != nil {
			return err
		}
		if after.Size != before.Size || after.Changed != before.Changed {
			return fmt.Errorf("%s: %w", f.Path, ErrChanged)
		}
		c.learn(f, after, sums)
	}
	maps.DeleteFunc(c.known, func(name string, _ entry) bool { _, here := c.seen[name]; return !here })
	if !c.stale || len(c.known) == 0 {
		return nil
	}
	if err := c.write(); err != nil {
		c.warn("digests could not be kept; the next process hashes the model again", "error", err)
	}
	return nil
}

// learn replaces what is known of a file, and forgets one that is too young.
func (c *cache) learn(f File, e entry, sums map[string]Sum) {
	if time.Since(time.Unix(0, e.Changed)) < young {
		delete(c.known, f.Name)
		return
	}
	e.Tensors = make(map[string]Sum, len(f.Tensors))
	for _, t := range f.Tensors {
		e.Tensors[t.Name] = sums[t.Name]
	}
	c.known[f.Name] = e
}

func (c *cache) write() error {
	body, err := json.Marshal(c.known)
	if err != nil {
		return fmt.Errorf("encoding digests: %w", err)
	}
	data := append(firstLine(body), body...)
	var errs []error
	for _, path := range c.paths {
		err := replace(path, data)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// firstLine has the format and the digest of what follows.
func firstLine(body []byte) []byte {
	return fmt.Appendf(nil, "%s %v\n", cacheFormat, Sum(sha256.Sum256(body)))
}

func replace(path string, data []byte) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name()) // the error is told already
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil { // others may read it, as they may the weights
		return err
	}
	return os.Rename(f.Name(), path)
}
