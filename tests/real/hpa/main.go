// Program hpa writes the cases of Go test files as JSON, without running or copying them.
//
// usage: go run . FILE...
//
// For every function whose name begins with Test it writes the struct literals of the tables in it, field by field, as
// they are written: a call stays a call, a name a name. A table that is gone through once with a feature gate on and
// once with it off gives each case twice, with what is assigned to it under either branch.
package main

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Test is one test function: its names with the values they are given, its cases, and what it asserts outside of any.
type Test struct {
	File    string         `json:"file"`
	Name    string         `json:"name"`
	Names   map[string]any `json:"names"`
	Cases   []Case         `json:"cases"`
	Asserts []any          `json:"asserts"`
}

// Case is one literal. Gate is nil where no feature gate is switched.
type Case struct {
	Type   string         `json:"type"`
	Gate   *bool          `json:"gate"`
	Fields map[string]any `json:"fields"`
}

func main() {
	tests := []Test{}
	for _, path := range os.Args[1:] {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		for _, found := range file.Decls {
			function, ok := found.(*ast.FuncDecl)
			if ok && function.Recv == nil && strings.HasPrefix(function.Name.Name, "Test") {
				tests = append(tests, read(filepath.Base(path), function))
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(tests); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(file string, function *ast.FuncDecl) Test {
	test := Test{File: file, Name: function.Name.Name, Names: map[string]any{}, Cases: []Case{}, Asserts: []any{}}
	for _, line := range function.Body.List {
		if statement, ok := line.(*ast.ExprStmt); ok {
			test.Asserts = append(test.Asserts, value(statement.X))
		}
	}
	structs := map[string][]string{}
	var gates []string
	ast.Inspect(function.Body, func(node ast.Node) bool {
		switch at := node.(type) {
		case *ast.TypeSpec:
			if made, ok := at.Type.(*ast.StructType); ok {
				structs[at.Name.Name] = fields(made)
			}
		case *ast.RangeStmt:
			if name, ok := at.Value.(*ast.Ident); ok && typeOf(at.X) == "[]bool" {
				gates = append(gates, name.Name)
			}
		case *ast.AssignStmt:
			if name, ok := at.Lhs[0].(*ast.Ident); ok && len(at.Lhs) == 1 && len(at.Rhs) == 1 {
				if _, isTable := at.Rhs[0].(*ast.CompositeLit); !isTable {
					test.Names[name.Name] = value(at.Rhs[0])
				}
			}
		case *ast.CompositeLit:
			if rows, order, name := table(at, structs); rows != nil {
				for _, row := range rows {
					test.Cases = append(test.Cases, Case{Type: name, Fields: named(row, order)})
				}
				return false
			}
			if name := typeOf(at); strings.HasSuffix(name, "estCase") {
				test.Cases = append(test.Cases, Case{Type: name, Fields: named(at, nil)})
				return false
			}
		}
		return true
	})
	if len(gates) == 1 {
		test.Cases = both(test.Cases, function.Body, gates[0])
	}
	return test
}

// table returns the rows of a slice of structs, the order of the fields and the name of the struct.
func table(found *ast.CompositeLit, structs map[string][]string) ([]*ast.CompositeLit, []string, string) {
	slice, ok := found.Type.(*ast.ArrayType)
	if !ok {
		return nil, nil, ""
	}
	var order []string
	name := "struct"
	switch element := slice.Elt.(type) {
	case *ast.StructType:
		order = fields(element)
	case *ast.Ident:
		if order, ok = structs[element.Name]; !ok {
			return nil, nil, ""
		}
		name = element.Name
	default:
		return nil, nil, ""
	}
	rows := []*ast.CompositeLit{}
	for _, element := range found.Elts {
		if row, ok := element.(*ast.CompositeLit); ok {
			rows = append(rows, row)
		}
	}
	return rows, order, name
}

// both gives every case twice, with what the branches of `if gate` assign to its fields.
func both(cases []Case, body *ast.BlockStmt, gate string) []Case {
	doubled := []Case{}
	for _, on := range []bool{true, false} {
		assigned := map[string]any{}
		ast.Inspect(body, func(node ast.Node) bool {
			branch, ok := node.(*ast.IfStmt)
			if !ok {
				return true
			}
			if name, ok := branch.Cond.(*ast.Ident); !ok || name.Name != gate {
				return true
			}
			taken := ast.Stmt(branch.Body)
			if !on {
				taken = branch.Else
			}
			if block, ok := taken.(*ast.BlockStmt); ok {
				for _, line := range block.List {
					assign(line, assigned)
				}
			}
			return true
		})
		for _, one := range cases {
			merged := map[string]any{}
			for key, field := range one.Fields {
				merged[key] = field
			}
			for key, field := range assigned {
				merged[key] = field
			}
			doubled = append(doubled, Case{Type: one.Type, Gate: &on, Fields: merged})
		}
	}
	return doubled
}

func assign(line ast.Stmt, into map[string]any) {
	if at, ok := line.(*ast.AssignStmt); ok && len(at.Lhs) == 1 {
		if field, ok := at.Lhs[0].(*ast.SelectorExpr); ok {
			into[field.Sel.Name] = value(at.Rhs[0])
		}
	}
}

func fields(made *ast.StructType) []string {
	names := []string{}
	for _, field := range made.Fields.List {
		for _, name := range field.Names {
			names = append(names, name.Name)
		}
	}
	return names
}

// named returns the fields of a struct literal; order is needed where they have no names.
func named(found *ast.CompositeLit, order []string) map[string]any {
	made := map[string]any{}
	for place, element := range found.Elts {
		if pair, ok := element.(*ast.KeyValueExpr); ok {
			made[fmt.Sprint(value(pair.Key))] = value(pair.Value)
		} else if place < len(order) {
			made[order[place]] = value(element)
		}
	}
	return made
}

// value returns an expression as JSON has it: {"call": NAME, "args": [...]} for a call, {"op": SIGN, "args": [...]} for
// arithmetic, the bare name for a name, of which the package is left out.
func value(expression ast.Expr) any {
	switch at := expression.(type) {
	case *ast.BasicLit:
		return literal(at)
	case *ast.Ident:
		return word(at.Name)
	case *ast.SelectorExpr:
		return at.Sel.Name
	case *ast.ParenExpr:
		return value(at.X)
	case *ast.UnaryExpr:
		if at.Op == token.SUB {
			return map[string]any{"op": "-", "args": []any{0, value(at.X)}}
		}
		return value(at.X)
	case *ast.BinaryExpr:
		return map[string]any{"op": at.Op.String(), "args": []any{value(at.X), value(at.Y)}}
	case *ast.CallExpr:
		return called(at)
	case *ast.CompositeLit:
		return composed(at)
	}
	return nil
}

func literal(at *ast.BasicLit) any {
	switch at.Kind {
	case token.STRING:
		text, err := strconv.Unquote(at.Value)
		if err == nil {
			return text
		}
	case token.INT:
		return json.Number(strings.ReplaceAll(at.Value, "_", ""))
	case token.FLOAT:
		// JSON knows no 5. and no .5
		number, err := strconv.ParseFloat(at.Value, 64)
		if err == nil {
			return number
		}
	}
	return at.Value
}

func word(name string) any {
	switch name {
	case "true":
		return true
	case "false":
		return false
	case "nil":
		return nil
	}
	return name
}

func called(at *ast.CallExpr) any {
	args := []any{}
	for _, arg := range at.Args {
		args = append(args, value(arg))
	}
	call := map[string]any{"call": typeOf(at.Fun), "args": args}
	if method, ok := at.Fun.(*ast.SelectorExpr); ok {
		call["on"] = value(method.X)
	}
	return call
}

func composed(at *ast.CompositeLit) any {
	if _, isList := at.Type.(*ast.ArrayType); !isList {
		if len(at.Elts) == 0 {
			return map[string]any{}
		}
		if _, isNamed := at.Elts[0].(*ast.KeyValueExpr); isNamed {
			return named(at, nil)
		}
	}
	list := []any{}
	for _, element := range at.Elts {
		list = append(list, value(element))
	}
	return list
}

func typeOf(expression ast.Expr) string {
	switch at := expression.(type) {
	case *ast.Ident:
		return at.Name
	case *ast.SelectorExpr:
		return at.Sel.Name
	case *ast.CompositeLit:
		return typeOf(at.Type)
	case *ast.ArrayType:
		return "[]" + typeOf(at.Elt)
	}
	return ""
}
