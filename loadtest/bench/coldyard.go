package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/switchyard/switchyard/pkg/compute/device"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/gguf"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/transport/bus"
	"github.com/switchyard/switchyard/pkg/transport/natsserver"
	"github.com/switchyard/switchyard/pkg/transport/weights"
	"github.com/switchyard/switchyard/schemas"
)

// mostCold bounds the experts that take turns: so many are pushed to the store.
const mostCold = 8

// coldYard is a model in a folder, some experts of it in an object store of the measurement's own, and
// memory to copy.
type coldYard struct {
	s            ColdSettings
	name         string
	files        []string
	experts      []forward.ExpertID
	turn         int
	contents     []model.Content // of the store
	stored, kept int64
	from, to     []byte // from has the bytes of several experts
	at           int    // in from
	offset       int64  // in the largest file
	conn         *bus.Conn
	objects      jetstream.ObjectStore // as nats.go reads it
	ends         []func() error        // the last begun first
}

func openColdYard(ctx context.Context, s ColdSettings) (_ *coldYard, err error) {
	y := &coldYard{s: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, y.close())
		}
	}()
	if err := y.take(); err != nil {
		return nil, err
	}
	y.from, y.to = make([]byte, y.stored*int64(min(len(y.experts), 2))), make([]byte, y.stored)
	for i := range y.from {
		y.from[i] = byte(i)
	}
	return y, y.push(ctx, s.Model)
}

// CheckCold refuses a model whose loads cannot be measured: it has no experts, or dir no plain files of weights.
func CheckCold(m *model.Model, dir string) error {
	return (&coldYard{s: ColdSettings{Model: m, Dir: dir}}).take()
}

// take finds experts and files.
func (y *coldYard) take() error {
	y.name = y.s.Model.Name
	if err := y.choose(y.s.Model); err != nil {
		return err
	}
	return y.find()
}

// choose takes the first experts of the first layer that has some.
func (y *coldYard) choose(m *model.Model) (err error) {
	layer := slices.IndexFunc(m.Spec.Layer, func(l model.LayerSpec) bool { return l.MoE })
	if layer < 0 {
		return fmt.Errorf("model %s has no experts", m.Name)
	}
	for e := range min(m.Spec.Experts, mostCold) {
		y.experts = append(y.experts, forward.ExpertID{Layer: layer, Expert: e})
	}
	if err := y.list(m); err != nil {
		return err
	}
	y.kept, err = device.Packed(m).Size(y.experts[0])
	return err
}

// list is what the store gets: all of the model but the experts that nobody loads.
func (y *coldYard) list(m *model.Model) error {
	contents, err := m.Contents()
	if err != nil {
		return err
	}
	loaded := map[string]bool{} // by the names of experts' pieces
	for layer := range m.Spec.Layers {
		for e := range m.Spec.Experts {
			name := model.Piece{Kind: model.ExpertPiece, Layer: layer, Expert: e}.String()
			loaded[name] = slices.Contains(y.experts, forward.ExpertID{Layer: layer, Expert: e})
		}
	}
	for _, c := range contents {
		chosen, expert := loaded[c.Name]
		if chosen {
			y.stored = c.Bytes // with a header of some hundred bytes
		}
		if chosen || !expert {
			y.contents = append(y.contents, c)
		}
	}
	return nil
}

// find lists the files of weights, the largest first.
func (y *coldYard) find() error {
	sizes := map[string]int64{}
	for _, end := range []string{".safetensors", gguf.Suffix} {
		files, err := filepath.Glob(filepath.Join(y.s.Dir, "*"+end))
		if err != nil {
			return err
		}
		for _, file := range files {
			info, err := os.Stat(file)
			if err != nil {
				return err
			}
			sizes[file] = info.Size()
			y.files = append(y.files, file)
		}
	}
	slices.SortFunc(y.files, func(a, b string) int { return int(sizes[b] - sizes[a]) })
	if len(y.files) == 0 || sizes[y.files[0]] < y.stored {
		return fmt.Errorf("%s has no plain file of weights with the bytes of an expert: %w", y.s.Dir, fs.ErrNotExist)
	}
	return nil
}

// push puts the experts into a store of the measurement's own.
func (y *coldYard) push(ctx context.Context, m *model.Model) error {
	dir, err := os.MkdirTemp("", "switchyard-cold-")
	if err != nil {
		return err
	}
	y.ends = append(y.ends, func() error { return os.RemoveAll(dir) })
	srv, err := natsserver.Start(natsserver.Settings{StoreDir: dir})
	if err != nil {
		return err
	}
	y.ends = append(y.ends, func() error { srv.Shutdown(); return nil })
	log := slog.New(slog.DiscardHandler)
	conn, err := bus.Connect(ctx, bus.Config{}, bus.Settings{InProcess: srv, Logger: log})
	if err != nil {
		return err
	}
	y.conn, y.ends = conn, append(y.ends, func() error { conn.Close(); return nil })
	y.s.Progress("putting %d experts into an object store…", len(y.experts))
	if err := weights.New(conn, schemas.DefaultPrefix, m.Name).Push(ctx, m.Hash, m.Digests(), y.contents, weights.PushSettings{}); err != nil {
		return err
	}
	y.objects, err = conn.JetStream().ObjectStore(ctx, schemas.Streams{Subjects: schemas.NewSubjects(schemas.DefaultPrefix, m.Name)}.Bucket("weights"))
	return err
}

func (y *coldYard) close() error {
	var errs []error
	for _, end := range slices.Backward(y.ends) {
		errs = append(errs, end())
	}
	return errors.Join(errs...)
}

func (y *coldYard) copyOver(context.Context) ([]float64, error) {
	from := y.bytes()
	begin := time.Now()
	copy(y.to, from)
	return secondsSince(begin), nil
}

func secondsSince(begin time.Time) []float64 { return []float64{time.Since(begin).Seconds()} }

// copyNew copies them to memory that the system has to give first.
func (y *coldYard) copyNew(context.Context) ([]float64, error) {
	from := y.bytes()
	begin := time.Now()
	to, free, err := newMemory(len(from))
	if err != nil {
		return nil, err
	}
	copy(to, from)
	return secondsSince(begin), free()
}

func (y *coldYard) bytes() []byte {
	y.at = (y.at + len(y.to)) % len(y.from)
	return y.from[y.at:][:len(y.to)]
}

// loadCached loads from files that the page cache has, by a new mapping.
func (y *coldYard) loadCached(ctx context.Context) ([]float64, error) {
	for _, file := range y.files {
		if err := eachMiB(file, 0, -1, y.to); err != nil {
			return nil, err
		}
	}
	return y.loadMapped(ctx, func() error { return nil })
}

// loadDropped loads from files that no cache has.
func (y *coldYard) loadDropped(ctx context.Context) ([]float64, error) {
	if err := y.drop(); err != nil {
		return nil, err
	}
	return y.loadMapped(ctx, y.drop)
}

func (y *coldYard) loadMapped(ctx context.Context, between func() error) (took []float64, err error) {
	m, err := model.OpenWith(ctx, y.s.Dir, model.Settings{Unhashed: true})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	return y.load(ctx, m, between)
}

// loadStored loads from a model of the store that is opened anew, so that it keeps no memory of a former turn's object. It
// is not closed, for that would close the connection.
func (y *coldYard) loadStored(ctx context.Context) ([]float64, error) {
	m, err := weights.OpenNow(ctx, y.conn, schemas.DefaultPrefix, y.name, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return y.load(ctx, m, func() error { return nil })
}

// read reads as many bytes as an expert has, that no cache has, from the largest file.
func (y *coldYard) read(context.Context) ([]float64, error) {
	if err := y.drop(); err != nil {
		return nil, err
	}
	info, err := os.Stat(y.files[0])
	if err != nil {
		return nil, err
	}
	if y.offset += y.stored; y.offset+y.stored > info.Size() {
		y.offset = 0
	}
	begin := time.Now()
	err = eachMiB(y.files[0], y.offset, y.stored, y.to)
	return secondsSince(begin), err
}

func (y *coldYard) drop() error {
	for _, file := range y.files {
		if err := dropFile(file); err != nil {
			return fmt.Errorf("dropping %s from the page cache: %w", file, err)
		}
	}
	return nil
}
