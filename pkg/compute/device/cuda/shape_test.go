package cuda

import (
	"errors"
	"fmt"
	"testing"

	"github.com/switchyard/switchyard/kernels/cuda"
	"github.com/switchyard/switchyard/pkg/compute/model"
)

// A prompt of 2,048 tokens is one call on a large GPU, and lanes of a small one stay small.
func TestLaneRows(t *testing.T) {
	for _, tt := range []struct {
		model  string
		memory int64
		want   int
	}{
		{"mixtral-8x7b", 72 << 30, 4096},
		{"qwen3-30b-a3b", 72 << 30, 4096},
		{"mixtral-8x7b", 2 << 30, 963},
		{"mixtral-8x7b", 16 << 30, 3855},
	} {
		m, err := model.Synthetic(tt.model, 1)
		if err != nil {
			t.Fatal(err)
		}
		s, err := shapeOf(m, 1, cuda.Mma)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.rowsOf(tt.memory); got != tt.want {
			t.Errorf("%s in %d GiB: %d rows, want %d", tt.model, tt.memory>>30, got, tt.want)
		}
	}
}

func TestTooManyRows(t *testing.T) {
	var rows *RowsError
	if err := checkRows(1 << 16); !errors.As(err, &rows) {
		t.Errorf("%v", err)
	}
	if err := checkRows(1<<16 - 1); err != nil {
		t.Error(err)
	}
}

// A wait that ends with what nobody knows is the end of the GPU; with what is known, it is that.
func TestErrorsOfWaits(t *testing.T) {
	for code, lost := range map[int]bool{226: true, 12345: true, 700: true, cuda.CodeOutOfMemory: false, cuda.CodeInvalidValue: false} {
		err := ofWait(fmt.Errorf("waiting: %w", &cuda.Error{Call: "cuEventSynchronize", Code: code}))
		if errors.Is(err, cuda.ErrLost) != lost {
			t.Errorf("%d: %v", code, err)
		}
	}
	if err := ofWait(nil); err != nil {
		t.Error(err)
	}
}
