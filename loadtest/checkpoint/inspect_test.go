package checkpoint

import (
	"path/filepath"
	"reflect"
	"testing"

	"github.com/switchyard/switchyard/pkg/compute/inspect"
	"github.com/switchyard/switchyard/pkg/compute/model"
	"github.com/switchyard/switchyard/pkg/compute/model/modeltest"
)

// What inspect says of a copy's files is what it says of their config alone.
func TestInspectCopy(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "quantised")
	if _, err := Quantise(t.Context(), modeltest.Golden(t, "mixtral"), dir, Settings{Precision: model.Q4, ShardBytes: 1 << 30}); err != nil {
		t.Fatal(err)
	}
	folder, err := inspect.Path(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	config, err := inspect.Path(t.Context(), filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !folder.Stored || config.Stored || !folder.Servable || folder.Reason != "" || folder.Bytes > 2*folder.ParametersTotal {
		t.Errorf("%+v", folder)
	}
	if config.Stored = true; !reflect.DeepEqual(folder, config) {
		t.Errorf("from files  %+v\nfrom config %+v", folder, config)
	}
}
