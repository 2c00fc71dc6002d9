package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/switchyard/switchyard/internal/wholefile"
)

// ErrInput marks what is wrong with what was asked for, rather than with writing.
var ErrInput = errors.New("unusable input")

// Config is the name of the file that makes a folder a model's.
const Config = "config.json"

// InPlace lets write fill a folder beside out, which becomes out if it worked: nothing half-made has the name. What
// is there already is refused. Folders that killed processes have left beside out are removed; see left.go.
func InPlace(out string, write func(partial string) error) (err error) {
	if err := CheckOut(out); err != nil {
		return err
	}
	removeLeft(out)
	partial, release, err := makePartial(out)
	if err != nil {
		return fmt.Errorf("making a folder beside %s: %w", out, err)
	}
	defer release()
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(partial))
		}
	}()
	if err := os.Chmod(partial, 0o755); err != nil { //nolint:gosec // a model is for others to read, as a folder made by hand is
		return err
	}
	if err := write(partial); err != nil {
		return err
	}
	if err := unmark(partial); err != nil {
		return err
	}
	if err := wholefile.SyncFolder(partial); err != nil {
		return err
	}
	if err := CheckOut(out); err != nil { // another process has made it meanwhile
		return err
	}
	if err := os.Rename(partial, out); err != nil {
		return err
	}
	return wholefile.SyncFolder(filepath.Dir(filepath.Clean(out)))
}

// CheckOut refuses what InPlace does.
func CheckOut(out string) error {
	switch _, err := os.Lstat(out); {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w: %w; name another folder", ErrInput, err)
	case err == nil:
		return fmt.Errorf("%w: %s is there already; name another folder, or remove it", ErrInput, out)
	}
	above := filepath.Dir(filepath.Clean(out))
	if info, err := os.Stat(above); err != nil || !info.IsDir() {
		return fmt.Errorf("%w: %s is no folder to make %s in", ErrInput, above, filepath.Base(out))
	}
	return nil
}

// Side are the files beside weights, of a model or of what one is made of.
type Side interface {
	SideNames() ([]string, error)
	File(name string) ([]byte, bool)
}

// CopySide copies them all but the config.
func CopySide(from Side, dir string) error {
	names, err := from.SideNames()
	if err != nil {
		return err
	}
	for _, name := range slices.DeleteFunc(names, func(name string) bool { return name == Config }) {
		if data, ok := from.File(name); ok {
			if err := WriteSide(dir, name, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// WriteSide writes a file that may lie in a folder of its own.
func WriteSide(dir, name string, data []byte) error {
	path := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // for others to read
		return err
	}
	f, err := os.Create(path) //nolint:gosec // for others to read
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// FileName is that of a file of weights, of so many.
func FileName(i, files int) string {
	if files == 1 {
		return "model.safetensors"
	}
	return fmt.Sprintf("model-%05d-of-%05d.safetensors", i+1, files)
}

// WriteIndex says which file has a tensor, of weights in several files that have so many bytes.
func WriteIndex(dir string, home map[string]string, bytes int64) error {
	data, err := json.MarshalIndent(map[string]any{"metadata": map[string]int64{"total_size": bytes}, "weight_map": home}, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the index: %w", err)
	}
	return WriteSide(dir, "model.safetensors.index.json", append(data, '\n'))
}
