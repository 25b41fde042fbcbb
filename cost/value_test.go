package cost_test

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"graphql-limit-count/cost"
)

// none stands for an argument that gives no count.
const none = -1

// counted is the count that an argument of Query.products gives in a document
// that selects one node below it.
func counted(t *testing.T, argument string, r request) float64 {
	t.Helper()
	if argument == "" {
		argument = "first"
	}
	r.decorations = []cost.Decoration{{FieldPath: "Query.products", MulArguments: []string{argument}, AddValue: number(1)}}
	r.options.Strategy = cost.NodeQuantifier
	quantified, err := r.cost(t)
	require.NoError(t, err)
	if quantified == 0 {
		return none
	}
	r.options.Strategy = cost.Complexity
	got, err := r.cost(t)
	require.NoError(t, err)
	return got - 2 // the operation and the field itself
}

func TestQuantifierSources(t *testing.T) {
	on := cost.Options{Variables: true, Defaults: true}
	for _, c := range []struct {
		name, document, variables, argument string
		want, withoutVariables              float64
	}{
		{"a literal", `{products(first:3){nodes}}`, ``, "", 3, 3},
		{"a literal wins over the schema's default", `{products(first:0){nodes}}`, ``, "", 0, 0},
		{"no argument: the schema's default", `{products{nodes}}`, ``, "", 50, none},
		{"no argument and no default", `{products{nodes}}`, ``, "last", none, none},
		{"a supplied variable", `query($v:Int){products(first:$v){nodes}}`, `{"v":3}`, "", 3, none},
		{"a supplied variable wins over its default", `query($v:Int=4){products(first:$v){nodes}}`, `{"v":3}`, "", 3, none},
		{"a variable's default", `query($v:Int=4){products(first:$v){nodes}}`, `{}`, "", 4, none},
		{"a variable's default wins over the schema's", `query($v:Int=0){products(first:$v){nodes}}`, ``, "", 0, none},
		{"a variable that nothing gives: the schema's default", `query($v:Int){products(first:$v){nodes}}`, ``, "", 50, none},
		{"a variable that nothing gives, no default", `query($v:Int){products(last:$v){nodes}}`, ``, "last", none, none},
		{"a supplied null ends the search", `query($v:Int=4){products(first:$v){nodes}}`, `{"v":null}`, "", none, none},
		{"a supplied object ends the search", `query($v:Int=4){products(first:$v){nodes}}`, `{"v":{}}`, "", none, none},
		{"a supplied text ends the search", `query($v:Int=4){products(first:$v){nodes}}`, `{"v":"x"}`, "", none, none},
		{"a supplied boolean ends the search", `query($v:Int=4){products(first:$v){nodes}}`, `{"v":true}`, "", none, none},
		{"a supplied negative number ends the search", `query($v:Int=4){products(first:$v){nodes}}`, `{"v":-1}`, "", none, none},
		{"a supplied list counts its length", `query($v:[Int]){products(first:$v){nodes}}`, `{"v":[5,[6,7]]}`, "", 2, none},
		{"a supplied decimal string", `query($v:Int){products(first:$v){nodes}}`, `{"v":" 1e1 "}`, "", 10, none},
		{"a null literal ends the search", `{products(first:null){nodes}}`, ``, "", none, none},
		{"an enum literal ends the search", `{products(first:TEN){nodes}}`, ``, "", none, none},
		{"a boolean literal ends the search", `{products(first:true){nodes}}`, ``, "", none, none},
		{"a text literal ends the search", `{products(first:"x"){nodes}}`, ``, "", none, none},
		{"a negative literal ends the search", `{products(first:-1){nodes}}`, ``, "", none, none},
		{"an infinite literal ends the search", `{products(first:1e999){nodes}}`, ``, "", none, none},
		{"an object literal gives nothing", `{products(first:{a:1}){nodes}}`, ``, "", 50, none},
		{"a list literal counts its length", `{products(first:[7,8,9]){nodes}}`, ``, "", 3, 3},
		{"an empty list is zero", `{products(first:[]){nodes}}`, ``, "", 0, 0},
		{"a list of variables", `query($v:Int){products(first:[$v,$v]){nodes}}`, `{"v":9}`, "", 2, 2},
		{"the first of repeated arguments", `{products(first:3,first:4){nodes}}`, ``, "", 3, 3},
		{"the first, even if it gives nothing", `query($v:Int){products(first:$v,first:4){nodes}}`, ``, "", 50, none},
		{"an undeclared variable that is supplied", `{products(first:$v){nodes}}`, `{"v":3}`, "", 3, none},
		{"an undeclared variable that is not", `{products(first:$v){nodes}}`, ``, "", 50, none},
		{"a null default ends the search", `query($v:Int=null){products(first:$v){nodes}}`, ``, "", none, none},
		{"an object default gives nothing", `query($v:Int={a:1}){products(first:$v){nodes}}`, ``, "", 50, none},
		{"a list default counts its length", `query($v:Int=[1,2]){products(first:$v){nodes}}`, ``, "", 2, none},
		{"a string default", `query($v:Int="4"){products(first:$v){nodes}}`, ``, "", 4, none},
		{"a default declared twice: the later", `query($v:Int=3,$v:Int=5){products(first:$v){nodes}}`, ``, "", 5, none},
		{"a default that is a variable gives nothing", `query($w:Int=3,$v:Int=$w){products(first:$v){nodes}}`, `{"w":2}`, "", 50, none},
		{"the default of the operation, in a fragment", `query($v:Int=4){...F} fragment F on Query{products(first:$v){nodes}}`, ``, "", 4, none},
		{"the schema's string default is no number", `{products{nodes}}`, ``, "text", none, none},
		{"the schema's object default gives nothing", `{products{nodes}}`, ``, "object", none, none},
		{"the schema's list default counts its length", `{products{nodes}}`, ``, "list", 3, none},
		{"the schema's null default is no number", `{products{nodes}}`, ``, "none", none, none},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := request{document: c.document, variables: c.variables, options: on}
			require.Equal(t, c.want, counted(t, c.argument, r))
			r.options = cost.Options{}
			require.Equal(t, c.withoutVariables, counted(t, c.argument, r), "resolve_variables: false")
		})
	}
}

func TestDefaultsBelongToTheirOperation(t *testing.T) {
	r := request{
		document:    `query A($v:Int=3){...F} query B{...F} query C($v:Int=7){...F} fragment F on Query{products(first:$v){nodes}}`,
		decorations: []cost.Decoration{{FieldPath: "Query.products", MulArguments: []string{"first"}, AddValue: number(0)}},
		options:     cost.Options{Strategy: cost.Complexity, Variables: true, Defaults: true},
	}
	for operation, want := range map[string]float64{"A": 1 + 3, "B": 1 + 50, "C": 1 + 7, "": 1 + 50} {
		r.options.OperationName = operation
		got, err := r.cost(t)
		require.NoError(t, err)
		require.Equal(t, want, got, operation)
	}
	r.variables = `{"v": 60}`
	for _, operation := range []string{"A", "B", "C", ""} {
		r.options.OperationName = operation
		got, err := r.cost(t)
		require.NoError(t, err)
		require.Equal(t, 61.0, got, "a supplied value is every operation's")
	}
}

func TestArgumentsOfAWeight(t *testing.T) {
	for _, c := range []struct {
		name       string
		decoration cost.Decoration
		arguments  string
		complexity float64 // of {products{nodes}}: 1 + add + mul*1
		quantifier float64
	}{
		{"mul_arguments multiply into mul_value", cost.Decoration{MulValue: number(2), MulArguments: []string{"first", "last"}}, `first:3,last:4`, 1 + 1 + 24, 1},
		{"add_arguments add to add_value", cost.Decoration{AddValue: number(2), AddArguments: []string{"first", "last"}}, `first:3,last:4`, 1 + 9 + 1, 0},
		{"absent ones are passed over", cost.Decoration{MulArguments: []string{"first", "last"}, AddArguments: []string{"first", "last"}}, `last:4`, 1 + 5 + 4, 5},
		{"unusable ones are passed over", cost.Decoration{MulArguments: []string{"first", "last"}}, `first:-3,last:4`, 1 + 1 + 4, 1},
		{"one named twice counts twice", cost.Decoration{MulArguments: []string{"first", "first"}}, `first:3`, 1 + 1 + 9, 1},
		{"add_arguments alone quantify nothing", cost.Decoration{AddArguments: []string{"first"}}, `first:3`, 1 + 4 + 1, 0},
		{"mul_value alone quantifies nothing", cost.Decoration{MulValue: number(5)}, `first:3`, 1 + 1 + 5, 0},
		{"zero is a real count", cost.Decoration{MulArguments: []string{"first"}}, `first:0`, 1 + 1 + 0, 1},
		{"an assumed size stands in for an absent argument", cost.Decoration{MulArguments: []string{"first"}, AssumedSize: number(7)}, `last:1`, 1 + 1 + 7, 1},
		{"and for an unusable one", cost.Decoration{MulArguments: []string{"first"}, AssumedSize: number(7)}, `first:"all"`, 1 + 1 + 7, 1},
		{"and multiplies mul_value", cost.Decoration{MulValue: number(2), MulArguments: []string{"first"}, AssumedSize: number(7)}, `last:1`, 1 + 1 + 14, 1},
		{"but not beside a usable one", cost.Decoration{MulArguments: []string{"first", "last"}, AssumedSize: number(7)}, `last:1`, 1 + 1 + 1, 1},
		{"nor beside a zero", cost.Decoration{MulArguments: []string{"first"}, AssumedSize: number(7)}, `first:0`, 1 + 1 + 0, 1},
		{"an assumed size needs no arguments", cost.Decoration{AssumedSize: number(7)}, `first:1`, 1 + 1 + 7, 1},
		{"an assumed size of zero", cost.Decoration{AssumedSize: number(0)}, `first:1`, 1 + 1 + 0, 1},
		{"fractions", cost.Decoration{AddValue: number(0.25), MulValue: number(0.5), MulArguments: []string{"first"}}, `first:1.5`, 1 + 0.25 + 0.75, 0.25},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.decoration.FieldPath = "Query.products"
			document := "{products(" + c.arguments + "){nodes}}"
			// The same from variables: what is folded while compiling and what is not must agree.
			variable := "query($first:I,$last:I){products(first:$first,last:$last){nodes}}"
			variables := "{" + strings.NewReplacer("first:", `"first":`, "last:", `"last":`).Replace(c.arguments) + "}"
			for _, r := range []request{{document: document}, {document: variable, variables: variables}} {
				r.decorations = []cost.Decoration{c.decoration}
				r.options = cost.Options{Strategy: cost.Complexity, Variables: true}
				got, err := r.cost(t)
				require.NoError(t, err)
				require.Equal(t, c.complexity, got)
				r.options.Strategy = cost.NodeQuantifier
				got, err = r.cost(t)
				require.NoError(t, err)
				require.Equal(t, c.quantifier, got)
			}
		})
	}
}

func TestARootTypesAssumedSize(t *testing.T) {
	r := request{document: `{node{id}}`, decorations: []cost.Decoration{{FieldPath: "Query", AssumedSize: number(3)}}}
	r.options.Strategy = cost.Complexity
	got, err := r.cost(t)
	require.NoError(t, err)
	require.Equal(t, 7.0, got)
	r.options.Strategy = cost.NodeQuantifier
	got, err = r.cost(t)
	require.NoError(t, err)
	require.Equal(t, 1.0, got)
}

func TestJSONValue(t *testing.T) {
	for _, c := range []struct {
		json string
		want cost.Value
	}{
		{``, cost.Value{}}, {` `, cost.Value{}},
		{`0`, cost.Number(0)}, {`-0`, cost.Number(0)}, {` 12 `, cost.Number(12)}, {`1.5e1`, cost.Number(15)}, {`1E-1`, cost.Number(0.1)},
		{`-1`, cost.Number(-1)}, {`1e400`, cost.Number(-1)}, {`-1e400`, cost.Number(-1)}, {`1e308`, cost.Number(1e308)},
		{`"10"`, cost.Number(10)}, {`" 1e3\n"`, cost.Number(1000)}, {`"\u0031"`, cost.Number(1)}, {`"+5."`, cost.Number(5)}, {`".5"`, cost.Number(0.5)},
		{`""`, cost.Number(-1)}, {`"."`, cost.Number(-1)}, {`"1 0"`, cost.Number(-1)}, {`"0x10"`, cost.Number(-1)}, {`"1e"`, cost.Number(-1)},
		{`"nan"`, cost.Number(-1)}, {`"Infinity"`, cost.Number(-1)}, {`"1_0"`, cost.Number(-1)}, {`"\u00a01"`, cost.Number(-1)}, {`"-1"`, cost.Number(-1)},
		{`"broken`, cost.Number(-1)}, {`1x`, cost.Number(-1)},
		{`null`, cost.Number(-1)}, {`true`, cost.Number(-1)}, {`false`, cost.Number(-1)}, {`{"a":1}`, cost.Number(-1)}, {`{}`, cost.Number(-1)},
		{`[]`, cost.Number(0)}, {"[ \t\r\n]", cost.Number(0)}, {`[0]`, cost.Number(1)}, {`[[]]`, cost.Number(1)}, {`[{}]`, cost.Number(1)}, {`[""]`, cost.Number(1)},
		{`[[1,2],[3,4,5]]`, cost.Number(2)}, {`[{"a":1,"b":[2,3]},",],\"]",null]`, cost.Number(3)}, {`["\\",","]`, cost.Number(2)},
	} {
		t.Run(c.json, func(t *testing.T) {
			require.Equal(t, c.want, cost.JSONValue(json.RawMessage(c.json)))
			require.Equal(t, strings.TrimSpace(c.json) != "", cost.JSONValue(json.RawMessage(c.json)).Set())
		})
	}
}

func TestDecimalsAtTheEdgesOfFloat64(t *testing.T) {
	zeros := strings.Repeat("0", 2000)
	for _, c := range []struct {
		text string
		want float64
	}{
		{"9007199254740991", 9007199254740991}, {"9007199254740992", 9007199254740992}, {"9007199254740993", 9007199254740992},
		{"0.1", 0.1}, {"123456789012345678901234567890", 123456789012345678901234567890}, {"3.14159265358979323846264338327950288", 3.141592653589793},
		{"1.7976931348623157e308", 1.7976931348623157e308}, {"1.797693134862315807e308", 1.7976931348623157e308},
		{"17976931348623157" + strings.Repeat("0", 292), 1.7976931348623157e308},
		{"1.797693134862315808e308", none}, {"1e309", none}, {"1e99999999999999999999", none},
		{"1e-290", 1e-290}, {"1e-300", math.SmallestNonzeroFloat64}, {"1e-99999999999999999999", math.SmallestNonzeroFloat64},
		{"-1e-300", none}, {"-1e-99999999999999999999", none}, {"-0e9", 0}, {"0e99999999999999999999", 0},
		{zeros + "7", 7}, {"7." + zeros, 7}, {"0." + zeros + "7e2001", 7}, {"7" + zeros + "e-2000", 7}, {"1" + zeros, none},
	} {
		t.Run(c.text[:min(len(c.text), 30)], func(t *testing.T) {
			want := cost.Number(c.want)
			text, err := json.Marshal(c.text)
			require.NoError(t, err)
			require.Equal(t, want, cost.JSONValue(text))
			if json.Valid([]byte(c.text)) {
				require.Equal(t, want, cost.JSONValue(json.RawMessage(c.text)), "as a number")
			}
		})
	}
}

func TestNumbersAreReadAsEncodingJSONReadsThem(t *testing.T) {
	for i := range 2000 {
		// Digits that wander over the whole range, 17 of them at most.
		text := strconv.FormatUint(uint64(i)*7919*104729*15485863%100_000_000_000_000_000, 10) + "e" + strconv.Itoa(i%560-280)
		var want float64
		require.NoError(t, json.Unmarshal([]byte(text), &want))
		require.Equal(t, cost.Number(want), cost.JSONValue(json.RawMessage(text)), text)
	}
}

func TestPlanTakesItsVariablesInOrder(t *testing.T) {
	model, err := cost.NewModel([]cost.Decoration{{FieldPath: "Query.products", MulArguments: []string{"first"}, AddArguments: []string{"last"}}})
	require.NoError(t, err)
	schema, err := cost.ParseSDL([]byte(shop))
	require.NoError(t, err)
	plan, err := parse(t, `query($x:I,$unused:I){node(id:$unused) a:products(first:$b,last:$a){nodes} b:products(first:$a){nodes}}`).
		Compile(cost.Options{Strategy: cost.Complexity, Model: model, Schema: schema, Variables: true})
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"a", "b"}, plan.Variables())
	values := map[string]cost.Value{"a": cost.Number(10), "b": cost.Number(100)}
	var supplied []cost.Value
	for _, name := range plan.Variables() {
		supplied = append(supplied, values[name])
	}
	// operation 1, node 1, a: 100 + 1 + 10, b: 10 + 1
	require.Equal(t, 124.0, plan.Cost(supplied))
	require.Equal(t, 124.0, plan.CostJSON(map[string]json.RawMessage{"a": json.RawMessage("10"), "b": json.RawMessage("100"), "c": json.RawMessage("7")}))
	require.Equal(t, 6.0, plan.Cost(nil))
	require.Equal(t, 6.0, plan.CostJSON(nil))
	require.Equal(t, 6.0, plan.Cost([]cost.Value{{}, {}}))
}

func TestAPlanReadsManyVariables(t *testing.T) {
	var b strings.Builder
	variables := map[string]json.RawMessage{}
	for i := range 200 {
		name := "v" + strconv.Itoa(i)
		b.WriteString("products(first:$" + name + "){nodes}")
		variables[name] = json.RawMessage(strconv.Itoa(i))
	}
	model, err := cost.NewModel([]cost.Decoration{{FieldPath: "Query.products", MulArguments: []string{"first"}}})
	require.NoError(t, err)
	schema, err := cost.ParseSDL([]byte(shop))
	require.NoError(t, err)
	plan, err := parse(t, "{"+b.String()+"}").Compile(cost.Options{Strategy: cost.Complexity, Model: model, Schema: schema, Variables: true})
	require.NoError(t, err)
	require.Len(t, plan.Variables(), 200)
	// 1 + sum of (i + 1) for i below 200
	require.Equal(t, 1+19_900.0+200, plan.CostJSON(variables))
}

func TestPlansDoNotReadVariablesThatBearOnNothing(t *testing.T) {
	for _, r := range []request{
		{document: `query($v:I){products(first:$v){nodes}}`},
		{document: `query($v:I){products(first:$v){nodes}}`, schema: "none", decorations: []cost.Decoration{{FieldPath: "Query.products", MulArguments: []string{"first"}}}},
	} {
		model, err := cost.NewModel(r.decorations)
		require.NoError(t, err)
		plan, err := parse(t, r.document).Compile(cost.Options{Strategy: cost.Complexity, Model: model, Variables: true})
		require.NoError(t, err)
		require.Empty(t, plan.Variables())
	}
}

func TestPlansThatReadVariablesTellTheirSize(t *testing.T) {
	model, err := cost.NewModel([]cost.Decoration{{FieldPath: "Query.products", MulArguments: []string{"first"}, AddArguments: []string{"last"}}})
	require.NoError(t, err)
	schema, err := cost.ParseSDL([]byte(shop))
	require.NoError(t, err)
	size := func(document string) int {
		plan, err := parse(t, document).Compile(cost.Options{Strategy: cost.Complexity, Model: model, Schema: schema, Variables: true})
		require.NoError(t, err)
		return plan.Size()
	}
	known := size(`{products(first:1){nodes{id}}}`)
	require.Equal(t, known, size(`{`+strings.Repeat(`products(first:1){nodes{id}}`, 1000)+`}`), "what is known is folded")
	one := size(`{products(first:$v){nodes{id}}}`)
	require.Greater(t, one, known)
	require.Greater(t, size(`{`+strings.Repeat(`products(first:$v,last:$w){nodes{id}}`, 1000)+`}`), 100*one)
}
