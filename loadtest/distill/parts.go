package distill

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/switchyard/switchyard/pkg/compute/safetensors"
	"github.com/switchyard/switchyard/pkg/compute/united"
)

// parts are the students that are done, a file each.
type parts struct{ dir, note string }

// noteFile says of what distillation the parts are.
const noteFile = "note.txt"

// openParts goes on with a folder if it is of the same note, and begins it if there is none.
func openParts(dir, note string) (*parts, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("keeping what is distilled: %w", err)
	}
	path := filepath.Join(dir, noteFile)
	had, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := replace(path, []byte(note)); err != nil {
			return nil, fmt.Errorf("keeping what is distilled: %w", err)
		}
	case err != nil:
		return nil, fmt.Errorf("going on with an earlier distillation: %w", err)
	case string(had) != note:
		return nil, fmt.Errorf("%s is of another distillation (%s); remove it to begin anew, or choose another --out", dir, had)
	}
	return &parts{dir, note}, nil
}

func (p *parts) path(u unit) string {
	name := fmt.Sprintf("way-%d-layer-%d-group-%d", u.way, u.layer, u.group)
	if u.stage == last {
		name += "-last"
	}
	return filepath.Join(p.dir, name)
}

// has reports whether a student is done. One that cannot be read is not.
func (p *parts) has(u unit) bool {
	_, _, err := p.read(u)
	return err == nil
}

// add keeps a student; nil is a group without one.
func (p *parts) add(u unit, g united.Group, n *net) error {
	table, err := json.Marshal(g)
	if err != nil {
		return err
	}
	var tensors []safetensors.Tensor
	if n != nil {
		half := n.f * n.d
		for i, w := range [][]float32{n.in.W[:half], n.in.W[half:], n.down.W} {
			data, err := safetensors.Encode(w, safetensors.BF16)
			if err != nil {
				return err
			}
			tensors = append(tensors, safetensors.Tensor{Name: fmt.Sprint(i), DType: safetensors.BF16, Shape: []int{len(w)}, Data: data})
		}
	}
	var body bytes.Buffer
	if err := safetensors.Write(&body, tensors, map[string]string{"group": string(table)}); err != nil {
		return err
	}
	if err := replace(p.path(u), body.Bytes()); err != nil {
		return fmt.Errorf("keeping what is distilled: %w", err)
	}
	return nil
}

// read is a student that was kept.
func (p *parts) read(u unit) (g united.Group, w united.Weights, err error) {
	data, err := os.ReadFile(p.path(u))
	if err != nil {
		return g, w, err
	}
	f, err := safetensors.Parse(data)
	if err != nil {
		return g, w, fmt.Errorf("reading %s: %w", p.path(u), err)
	}
	if err := json.Unmarshal([]byte(f.Metadata()["group"]), &g); err != nil {
		return g, w, fmt.Errorf("reading %s: %w", p.path(u), err)
	}
	for i, into := range []*[]byte{&w.Gate, &w.Up, &w.Down} {
		t, ok := f.Tensor(fmt.Sprint(i))
		if !ok && g.Rows > 0 {
			return g, w, fmt.Errorf("reading %s: it has no weights", p.path(u))
		}
		*into = t.Data
	}
	return g, w, nil
}

// replace writes a file so that it is whole or not there.
func replace(path string, data []byte) error {
	if err := os.WriteFile(path+".new", data, 0o644); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
