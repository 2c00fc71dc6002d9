package predictor

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/switchyard/switchyard/internal/pause"
	"github.com/switchyard/switchyard/pkg/compute/mapfile"
	"github.com/switchyard/switchyard/pkg/policy/expertmap"
)

const (
	// saveEvery is how often maps are written, lookEvery how often it is looked whether others
	// have written the file.
	saveEvery = time.Minute
	lookEvery = 2 * time.Second
)

// saving keeps a mapper's maps in a file. One goroutine uses it, and another one writes.
type saving struct {
	path    string
	log     *slog.Logger
	noise   pause.ErrorLog
	saved   time.Time
	added   uint64 // maps when they were saved
	tenants []string

	writing sync.WaitGroup
	mu      sync.Mutex
	seen    fs.FileInfo // of the file as it was read or written; nil: it was not there
}

// restore takes in what the file has. What is damaged is passed over; maps of another model are
// refused, as the file is another one's.
func (s *saving) restore(store *expertmap.Store) error {
	from, err := s.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case errors.Is(err, expertmap.ErrForeign):
		return err
	case err != nil:
		s.noise.Error(s.log, "expert maps begin anew: their file cannot be read, and is written again", err)
		return nil
	}
	if err := store.Merge(from); err != nil {
		return err
	}
	s.added = store.Counts().Added
	s.tenants, _ = store.Owners()
	return nil
}

func (s *saving) read() (*expertmap.Store, error) {
	info, err := os.Stat(s.path)
	if err != nil {
		return nil, err
	}
	from, err := mapfile.Read(s.path)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = info
	return from, err
}

// look forgets tenants whom others have erased from the file, and writes it if it is time.
func (s *saving) look(store *expertmap.Store, now time.Time) (forgotten []string) {
	if s == nil {
		return nil
	}
	if s.changed() {
		forgotten = s.heed(store)
	}
	if now.Sub(s.saved) >= saveEvery && store.Counts().Added != s.added {
		s.save(store, now)
	}
	return forgotten
}

// changed reports whether others have written the file, or removed it.
func (s *saving) changed() bool {
	s.writing.Wait() // it takes less than the time between two looks
	info, err := os.Stat(s.path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen == nil || err != nil {
		return s.seen != nil
	}
	return !os.SameFile(s.seen, info) || !s.seen.ModTime().Equal(info.ModTime()) || s.seen.Size() != info.Size()
}

// heed forgets the tenants that were in the file and are there no more.
func (s *saving) heed(store *expertmap.Store) (forgotten []string) {
	from, err := s.read()
	if err != nil {
		s.noise.Error(s.log, "expert maps' file was changed, and cannot be read", err)
		return nil
	}
	left, _ := from.Owners()
	for _, tenant := range s.tenants {
		if !slices.Contains(left, tenant) {
			s.log.Info("a tenant's expert maps are forgotten, as they were erased from the file", "tenant", tenant, "maps", store.Forget(tenant))
			forgotten = append(forgotten, tenant)
		}
	}
	s.tenants = left
	return forgotten
}

// save encodes the maps, and has another goroutine write them.
func (s *saving) save(store *expertmap.Store, now time.Time) {
	var snapshot bytes.Buffer
	if err := store.Save(&snapshot); err != nil {
		s.noise.Error(s.log, "expert maps are not saved", err)
		return
	}
	s.saved, s.added = now, store.Counts().Added
	s.tenants, _ = store.Owners()
	s.writing.Go(func() { s.write(snapshot.Bytes()) })
}

func (s *saving) write(snapshot []byte) {
	err := mapfile.WriteSaved(s.path, snapshot)
	info, missing := os.Stat(s.path)
	s.mu.Lock()
	defer s.mu.Unlock()
	if missing == nil {
		s.seen = info
	}
	if err != nil {
		s.noise.Error(s.log, "expert maps are not saved", err)
	}
}

// end writes what was not written yet, unless others have erased something meanwhile.
func (s *saving) end(store *expertmap.Store) {
	if s == nil {
		return
	}
	s.look(store, s.saved)
	if store.Counts().Added != s.added {
		s.save(store, time.Now())
	}
	s.writing.Wait()
}
