// A reading list that survives restarts. (in a comment)
import Foundation
import class Combine.AnyCancellable

/// How many titles a shelf may hold.
let shelfLimit = 40
private var openShelves = 0

typealias Title = String

/// Why a book could not be put away.
enum ShelfError: Error {
    case full(limit: Int)
    case duplicate, unreadable

    var advice: String {
        "in a string: make room on \(self)"
    }
}

protocol Shelving {
    associatedtype Item
    var count: Int { get }
    /// Put one item away.
    func store(_ item: Item) throws -> Int
}

struct Book: Hashable {
    let title: Title
    var pages = 0, chapters = 1

    init?(title: Title, pages: Int) {
        guard !title.isEmpty else { return nil }
        self.title = title
        self.pages = pages
    }

    static func == (left: Book, right: Book) -> Bool {
        left.title == right.title
    }

    subscript(page: Int) -> Character? { nil }
}

/** A shelf in the hall. */
@MainActor
final class Shelf<Item: Hashable>: Shelving {
    static let shared = Shelf<Book>()
    private(set) var items: [Item] = []
    var count: Int { items.count }

    enum Order {
        case byTitle
        indirect case nested(Order)
    }

    /// Store an item, and say where it is.
    @discardableResult
    func store(
        _ item: Item  // what to put away
    ) throws -> Int {
        guard items.count < shelfLimit else { throw ShelfError.full(limit: shelfLimit) }
        func place(of wanted: Item) -> Int {
            let found = items.firstIndex(of: wanted)
            return found ?? items.count
        }
        items.append(item)
        return place(of: item)
    }

    deinit { openShelves -= 1 }
}

extension Shelf {
    func clear(keeping: Int = 0) { items.removeLast(count - keeping) }
}

actor Librarian {
    func lend(_ book: Book) async -> Bool { true }
}

func openShelf<T>(named name: String) -> Shelf<T> where T: Hashable {
    openShelves += 1
    return Shelf<T>()
}

infix operator <+>
