package checkpoint

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/switchyard/switchyard/kernels/pool"
	"github.com/switchyard/switchyard/pkg/compute/direct"
	"github.com/switchyard/switchyard/pkg/compute/forward"
	"github.com/switchyard/switchyard/pkg/compute/goldens"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/compute/sampling"
	"github.com/switchyard/switchyard/pkg/compute/tensor"
)

// copyIn writes a copy, in files of so many bytes.
func copyIn(t *testing.T, m *model.Model, p model.Precision, shard int64) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), m.Name)
	if _, err := Quantise(t.Context(), m, out, Settings{Precision: p, ShardBytes: shard, Threads: 2}); err != nil {
		t.Fatal(err)
	}
	return out
}

// logits are those of each position of a prompt.
func logits(t *testing.T, m *model.Model, p model.Precision) []float32 {
	t.Helper()
	m.In(p)
	if err := forward.CheckPrecision(m); err != nil {
		t.Fatal(err)
	}
	threads := pool.New(2)
	t.Cleanup(threads.Close)
	r, err := direct.New(m, threads, direct.Settings{Wire: tensor.F32, MaxPositions: 64, KVBytes: 1 << 20})
	if err != nil {
		t.Fatal(err)
	}
	prompt := direct.Prompt{IDs: []uint32{7, 30, 2, 99, 41, 5, 18, 77, 3, 64, 12}}
	switch m.Spec.Task() {
	case model.Fill:
		prompt.Source = len(prompt.IDs)
	case model.Answer:
		prompt.Source = len(prompt.IDs) - 4
	}
	s, err := r.AddPrompt(prompt, 0, sampling.Params{Logprobs: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := r.Logits(t.Context(), s)
	if err != nil || len(out) == 0 {
		t.Fatalf("%d logits, %v", len(out), err)
	}
	return out
}

// divisible are the golden checkpoints that can be quantised, and the model in the binary.
var divisible = []string{"bert2bert_moe", "bert_moe", "gpt2_moe", "gpt2_moe-top1", "gpt_oss", "mixtral", "mixtral-window", "phimoe"}

// A copy has the bits of the model that is quantised when it is loaded, with rows as they are and in 8 bits, whatever
// its family and however its matrices are stored; and it is another model.
func TestSameBits(t *testing.T) {
	for _, name := range divisible {
		for at, ways := range map[model.Precision][][2]model.Precision{
			model.Q8: {{model.Q8, model.AsStored}, {model.W8A8, model.W8A8}},
			model.Q4: {{model.Q4, model.AsStored}, {model.W4A8, model.W4A8}},
		} {
			t.Run(name+"/"+string(at), func(t *testing.T) {
				dir := copyIn(t, modeltest.Golden(t, name), at, 40_000)
				for _, way := range ways {
					from, to := modeltest.Golden(t, name), modeltest.Open(t, dir)
					want, got := logits(t, from, way[0]), logits(t, to, way[1])
					if !slices.Equal(got, want) {
						t.Errorf("in %q it has other logits than the model in %q", way[1], way[0])
					}
					if from.Hash == to.Hash || to.Bytes >= from.Bytes || len(to.Unused) > 0 {
						t.Errorf("identity %.8s of %.8s, %d bytes of %d, unused %v", to.Hash, from.Hash, to.Bytes, from.Bytes, to.Unused)
					}
				}
			})
		}
	}
}

// The demo model's head is its embedding, of which both the codes and the numbers are used.
func TestTied(t *testing.T) {
	from, err := model.Demo()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = from.Close() })
	dir := copyIn(t, from, model.Q8, 4<<30)
	to := modeltest.Open(t, dir)
	if to.Spec.TiedEmbeddings || !slices.Equal(logits(t, from, model.Q8), logits(t, to, model.AsStored)) {
		t.Errorf("tied: %v, or it has other logits", to.Spec.TiedEmbeddings)
	}
	if _, ok := to.File("tokenizer.json"); !ok {
		t.Error("it has no tokenizer")
	}
}

// What cannot be a copy is refused before anything is written.
func TestRefusals(t *testing.T) {
	dir, q8 := t.TempDir(), modeltest.Open(t, copyIn(t, modeltest.Golden(t, "mixtral"), model.Q8, 4<<30))
	full := filepath.Join(dir, "full")
	if err := WriteSide(full, "notes.txt", nil); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		m    *model.Model
		out  string
		s    Settings
		want string
	}{
		{q8, "a", Settings{Precision: model.Q4, ShardBytes: 1}, "quantised already, to codes of 8 bits"},
		{modeltest.Golden(t, "gpt_oss-mxfp4"), "a", Settings{Precision: model.Q8, ShardBytes: 1}, "is published with codes"},
		{modeltest.Golden(t, "qwen3_moe"), "a", Settings{Precision: model.Q8, ShardBytes: 1}, "40 inputs are no multiple of 32"},
		{modeltest.Tiny(t), "a", Settings{Precision: model.Q8, ShardBytes: 1}, "is in no folder"},
		{modeltest.Golden(t, "mixtral"), "a", Settings{Precision: model.W8A8, ShardBytes: 1}, `precision is "w8a8"`},
		{modeltest.Golden(t, "mixtral"), "a", Settings{Precision: model.Q8}, "shard-size is 0"},
		{modeltest.Golden(t, "mixtral"), "full", Settings{Precision: model.Q8, ShardBytes: 1}, "is there already"},
		{modeltest.Golden(t, "mixtral"), "full/notes.txt", Settings{Precision: model.Q8, ShardBytes: 1}, "is there already"},
		{modeltest.Golden(t, "mixtral"), "none/a", Settings{Precision: model.Q8, ShardBytes: 1}, "is no folder to make a in"},
	} {
		if _, err := Quantise(t.Context(), tt.m, filepath.Join(dir, tt.out), tt.s); !errors.Is(err, ErrInput) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
	for p, want := range map[model.Precision]string{
		model.Q4: "is stored in q8", model.W4A8: "is stored in q8", model.W16A16: "is stored in q8", model.A8: "or give w8a8", model.Q8: "leave --precision out",
	} {
		q8.In(p)
		if err := forward.CheckPrecision(q8); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", p, err)
		}
	}
}

// fullDisk is a file on a disk that has room for so many bytes.
type fullDisk struct {
	*os.File
	left *atomic.Int64
}

func (f fullDisk) WriteAt(b []byte, at int64) (int, error) {
	if f.left.Add(-int64(len(b))) < 0 {
		return 0, &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC}
	}
	return f.File.WriteAt(b, at)
}

// lazyDisk says only when it is told to write that it cannot.
type lazyDisk struct{ *os.File }

func (f lazyDisk) Sync() error { return &os.PathError{Op: "sync", Path: f.Name(), Err: syscall.EIO} }

// Whatever fails, at any place, leaves nothing behind.
func TestNothingHalfMade(t *testing.T) {
	const file = 400_000 // less than all take
	dir := t.TempDir()
	try := func(ctx context.Context, create func(string) (written, error)) error {
		m := modeltest.Golden(t, "mixtral")
		_, err := Quantise(ctx, m, filepath.Join(dir, "out"), Settings{Precision: model.Q8, ShardBytes: 60_000, Threads: 2, create: create})
		return err
	}
	for room := int64(0); room < file; room += 45_000 {
		var left atomic.Int64
		left.Store(room)
		err := try(t.Context(), func(path string) (written, error) { f, err := os.Create(path); return fullDisk{f, &left}, err })
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "no space left on device; the copy takes") || errors.Is(err, ErrInput) {
			t.Errorf("room for %d: %v", room, err)
		}
	}
	if err := try(t.Context(), func(path string) (written, error) { f, err := os.Create(path); return lazyDisk{f}, err }); !errors.Is(err, syscall.EIO) {
		t.Errorf("%v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	files := 0
	err := try(ctx, func(path string) (written, error) {
		if files++; files == 3 {
			cancel()
		}
		return os.Create(path)
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

type written = file

// A process that is killed leaves a folder of another name that nobody takes for a model, whatever it had written.
func TestKilled(t *testing.T) {
	dir, stop := t.TempDir(), errors.New("stop")
	m := modeltest.Golden(t, "mixtral")
	for files := 1; ; files++ {
		seen := 0
		_, err := Quantise(t.Context(), m, filepath.Join(dir, "out"), Settings{Precision: model.Q4, ShardBytes: 60_000, create: func(path string) (file, error) {
			if seen++; seen <= files {
				return os.Create(path)
			}
			copied := filepath.Join(dir, fmt.Sprint("killed", files))
			if err := os.CopyFS(copied, os.DirFS(filepath.Dir(path))); err != nil {
				t.Fatal(err)
			}
			if _, err := model.Open(copied); err == nil {
				t.Errorf("with %d files it is a model", files)
			}
			return nil, stop
		}})
		if err == nil {
			break
		}
		if !errors.Is(err, stop) {
			t.Fatal(err)
		}
	}
}

// A file that is cut while it is read, or has numbers that are none, is told by name.
func TestBadSource(t *testing.T) {
	spoil := func(t *testing.T, change func(path string) error) error {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(goldens.Dir("mixtral"))); err != nil {
			t.Fatal(err)
		}
		m, err := model.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = m.Close() }()
		if err := change(filepath.Join(dir, "model.safetensors")); err != nil {
			t.Fatal(err)
		}
		_, err = Quantise(t.Context(), m, filepath.Join(dir, "out"), Settings{Precision: model.Q8, ShardBytes: 1 << 30, Threads: 2})
		return err
	}
	err := spoil(t, func(path string) error { return os.Truncate(path, 8192) })
	if err == nil || !strings.Contains(err.Error(), "model.safetensors cannot be read any more") {
		t.Errorf("%v", err)
	}
	err = spoil(t, func(path string) error {
		f, err := safetensors.Open(path)
		if err != nil {
			return err
		}
		at, _ := f.Tensor("model.layers.1.self_attn.o_proj.weight")
		to, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			_, err = to.WriteAt([]byte{0xc0, 0x7f}, at.Offset+2*64*3)
		}
		return errors.Join(err, to.Close(), f.Close())
	})
	if err == nil || !strings.Contains(err.Error(), `tensor "model.layers.1.self_attn.o_proj.weight": output 3: input 0: a weight is NaN`) {
		t.Errorf("%v", err)
	}
}

// Each tensor begins at a multiple of its elements' size, in files of any size, and config.json names what stays.
func TestLayout(t *testing.T) {
	for _, shard := range []int64{1, 100_000, 4 << 30} {
		dir := copyIn(t, modeltest.Golden(t, "gpt2_moe"), model.Q4, shard)
		names, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
		if err != nil || len(names) == 0 || shard > 1<<30 != (len(names) == 1) {
			t.Fatalf("%v, %v", names, err)
		}
		for _, name := range names {
			f, err := safetensors.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			for _, tensor := range f.Names() {
				if x, _ := f.Tensor(tensor); x.Offset%int64(x.DType.Size()) != 0 {
					t.Errorf("%s of %s is at %d", tensor, x.DType, x.Offset)
				}
			}
			_ = f.Close()
		}
		var config struct {
			Quant struct {
				Ignore []string `json:"ignore"`
			} `json:"quantization_config"`
		}
		data, _ := os.ReadFile(filepath.Join(dir, Config))
		if err := json.Unmarshal(data, &config); err != nil || !slices.Contains(config.Quant.Ignore, "transformer.h.0.mlp.gate") || slices.Contains(config.Quant.Ignore, "transformer.h.0.attn.c_proj") {
			t.Errorf("%v, %v", config, err)
		}
	}
}
