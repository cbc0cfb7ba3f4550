package docs

import (
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Links within the repository lead somewhere, and to a heading that is there. Those to
// elsewhere are not followed.
func TestLinksResolve(t *testing.T) {
	all := documents(t)
	anchors := map[string][]string{}
	for _, d := range all {
		anchors[d.path] = d.anchors
	}
	followed := 0
	for _, d := range all {
		for _, link := range d.links {
			u, err := url.Parse(link)
			require.NoError(t, err, d.path)
			if u.Scheme != "" || u.Host != "" {
				assert.Contains(t, []string{"http", "https"}, u.Scheme, "%s: %s", d.path, link)
				continue
			}
			followed++
			target := d.path
			if u.Path != "" {
				assert.False(t, strings.HasPrefix(u.Path, "/"), "%s: %s is not relative", d.path, link)
				target = path.Join(path.Dir(d.path), u.Path)
				if _, err := os.Stat(filepath.Join(root, target)); err != nil {
					assert.Fail(t, "a link to nothing", "%s: %s", d.path, link)
					continue
				}
			}
			if u.Fragment != "" {
				assert.True(t, slices.Contains(anchors[target], u.Fragment), "%s: %s has no heading #%s", d.path, target, u.Fragment)
			}
		}
	}
	assert.Greater(t, followed, 50, "links are not found any more")
}

// Every page of this folder is in its index.
func TestIndexIsComplete(t *testing.T) {
	index := parse(t, "docs/README.md")
	for _, d := range documents(t) {
		if name, ok := strings.CutPrefix(d.path, "docs/"); ok && name != "README.md" && !strings.Contains(name, "/") {
			assert.Contains(t, index.links, name)
		}
	}
}

func TestAnchors(t *testing.T) {
	var d document
	for _, heading := range []string{"A quorum", "It's done: `SET NX`, and more!", "A quorum", "µs – and not"} {
		d.addAnchor(strings.ReplaceAll(heading, "`", ""))
	}
	assert.Equal(t, []string{"a-quorum", "its-done-set-nx-and-more", "a-quorum-1", "µs--and-not"}, d.anchors)
}
