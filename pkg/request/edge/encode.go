package edge

import (
	"time"

	pb "github.com/switchyard/switchyard/schemas/switchyard/v1"
)

// Encode makes the ids of a prompt, and nothing else of it: there may be more than the context
// holds. Its time is what chat templates see.
func (m Model) Encode(p *pb.Prompt, now time.Time) ([]uint32, error) {
	if err := checkOneInput(p); err != nil {
		return nil, err
	}
	if err := m.checkIDs(p); err != nil {
		return nil, err
	}
	if m.EncodeLong != nil {
		m.EncodeChat = m.EncodeLong
	}
	return m.encode(p, now)
}
