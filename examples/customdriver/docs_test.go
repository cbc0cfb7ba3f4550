package customdriver

import (
	"testing"

	"github.com/golocker/golocker/examples/internal/shown"
)

// What authors of drivers copy compiles and passes the suite.
func TestDocumentShowsThisCode(t *testing.T) { shown.Check(t, "../../docs/writing-a-driver.md") }
