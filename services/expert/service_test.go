package expert

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/switchyard/switchyard/pkg/compute/tensor"
	"github.com/switchyard/switchyard/pkg/process/deployment"
	"github.com/switchyard/switchyard/pkg/transport/bus"
)

// A gate may send a host rows of a function that it does not have, or not any
// more: they are counted and taken for lost, and harm nothing.
func TestRowsOfAFunctionThatIsNotWarm(t *testing.T) {
	body, err := proto.Marshal(dispatch(tensor.F32, 4, 0))
	if err != nil {
		t.Fatal(err)
	}
	s := &Service{presence: (&deployment.Deployment{}).NewPresence("expert-1", "expert")}
	if err := s.receive(t.Context(), &bus.Msg{Data: body}, nil); err != nil {
		t.Errorf("refused with %v", err)
	}
}
