package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"golang.org/x/term"
)

// terminalWidth returns how many characters a line of w has, or 0 if w is no terminal.
func terminalWidth(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return width
}

// pairs prints names and values below each other, in full.
func (p printer) pairs(rows [][2]string) error {
	cells := make([][]string, len(rows))
	for n, row := range rows {
		cells[n] = []string{escape(row[0]), escape(row[1])}
	}
	return p.align(cells)
}

// table prints rows with aligned columns. On a terminal, it cuts the last column, which is
// text for people, so that a row is one line.
func (p printer) table(rows [][]string) error {
	cells := make([][]string, len(rows))
	for n, row := range rows {
		for _, cell := range row {
			cells[n] = append(cells[n], escape(cell))
		}
	}
	if p.width > 0 && len(cells) > 0 {
		shortenLast(cells, p.width)
	}
	return p.align(cells)
}

// gap is between two columns.
const gap = 2

func (p printer) align(rows [][]string) error {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, gap, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	w.Flush() // a Builder takes everything
	return p.print(out.String())
}

// shortenLast cuts the last column to what the others leave of a line, but not to less
// than a short word. The first row has all columns.
func shortenLast(rows [][]string, line int) {
	const narrowest = 8
	last := len(rows[0]) - 1
	widths := make([]int, last)
	for _, row := range rows {
		for n := range widths {
			widths[n] = max(widths[n], utf8.RuneCountInString(row[n]))
		}
	}
	for _, width := range widths {
		line -= width + gap
	}
	for _, row := range rows {
		row[last] = shorten(row[last], max(line, narrowest))
	}
}

// shorten cuts s to n characters.
func shorten(s string, n int) string {
	runes := []rune(s)
	if len(runes) <= n {
		return s
	}
	return string(runes[:n-1]) + "…"
}
