package integration

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestArchitecturePicture holds the picture in the design document against the
// code: each package is in one of its boxes, and an arrow is there if and only if
// a package of one box imports one of another.
func TestArchitecturePicture(t *testing.T) {
	boxes, drawn := readPicture(t, "../docs/design.md")
	boxOf := make(map[string]string)
	for box, packages := range boxes {
		for _, name := range packages {
			if other := boxOf[name]; other != "" {
				t.Errorf("%s is in the boxes %s and %s", name, other, box)
			}
			boxOf[name] = box
		}
	}
	found := make(map[string]bool)
	for _, p := range listPackages(t, "./...") {
		name := strings.TrimPrefix(p.ImportPath, module)
		from := boxAround(boxOf, name)
		if from == "" && !within("integration", name) && !within("examples", name) {
			t.Errorf("%s is in no box", name)
		}
		for _, imported := range p.Imports {
			to := boxAround(boxOf, strings.TrimPrefix(imported, module))
			if from != "" && to != "" && from != to {
				found[from+" --> "+to] = true
			}
		}
	}
	for _, arrow := range slices.Sorted(maps.Keys(found)) {
		if !drawn[arrow] {
			t.Errorf("the picture lacks %s", arrow)
		}
	}
	for _, arrow := range slices.Sorted(maps.Keys(drawn)) {
		if !found[arrow] {
			t.Errorf("no import stands behind %s", arrow)
		}
	}
}

// boxAround returns the box of a package, or of the nearest one above it that has one.
func boxAround(boxOf map[string]string, name string) string {
	for {
		if box, ok := boxOf[name]; ok {
			return box
		}
		end := strings.LastIndexByte(name, '/')
		if end < 0 {
			return ""
		}
		name = name[:end]
	}
}

var (
	boxLine   = regexp.MustCompile(`^ *(\w+)\["(?:<b>.*?</b><br>)?(.*)"\]$`)
	arrowLine = regexp.MustCompile(`^ *(\w+) --> (\w+(?: & \w+)*)$`)
)

// readPicture reads the Mermaid flowchart of a document.
func readPicture(t *testing.T, file string) (boxes map[string][]string, arrows map[string]bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	_, picture, _ := strings.Cut(string(text), "```mermaid\nflowchart")
	picture, _, ok := strings.Cut(picture, "```")
	if !ok {
		t.Fatal("no Mermaid flowchart")
	}
	boxes, arrows = make(map[string][]string), make(map[string]bool)
	for line := range strings.Lines(picture) {
		line = strings.TrimRight(line, "\n")
		if m := boxLine.FindStringSubmatch(line); m != nil {
			boxes[m[1]] = strings.Split(m[2], "<br>")
		} else if m := arrowLine.FindStringSubmatch(line); m != nil {
			for to := range strings.SplitSeq(m[2], " & ") {
				arrows[m[1]+" --> "+to] = true
			}
		} else if strings.TrimSpace(line) != "" && !strings.HasPrefix(line, " TD") {
			t.Errorf("line %q is neither a box nor an arrow", line)
		}
	}
	return boxes, arrows
}
